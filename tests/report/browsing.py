"""What one does with a page in a browser."""

from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

WIDE, NARROW = 1280, 390
NAMES = [f"Person, {chr(65 + node)}" for node in range(24)]


def resize(browser: webdriver.Chrome, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
    )


def prefer(browser: webdriver.Chrome, scheme: str, media: str = "screen") -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


def rows(page: webdriver.Chrome) -> list[list[str]]:
    """The cells of the rows that can be seen."""
    found: list[list[str]] = page.execute_script("""
        return [...document.querySelectorAll("#nodes tbody tr")].filter((row) => row.offsetParent !== null)
            .map((row) => [...row.cells].map((cell) => cell.textContent.trim()))""")
    return found


def node_of(cells: list[str]) -> int:
    """The number of the node of a row; its name stands behind it."""
    return int(cells[0].split()[0])


def header(page: webdriver.Chrome, name: str) -> WebElement:
    return next(cell for cell in page.find_elements(By.CSS_SELECTOR, "#nodes thead th") if cell.text.startswith(name))


def sort(page: webdriver.Chrome, name: str) -> None:
    header(page, name).find_element(By.TAG_NAME, "button").click()


def background(page: webdriver.Chrome) -> str:
    return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))


def ask(page: webdriver.Chrome, text: str) -> str:
    """The title of what is shown when one types that."""
    field = page.find_element(By.ID, "ask")
    field.clear()
    field.send_keys(text)
    return page.find_element(By.ID, "node-title").text


def numbers_of(page: webdriver.Chrome) -> dict[str, Any]:
    found: dict[str, Any] = page.execute_script("return page.numbers")
    return found
