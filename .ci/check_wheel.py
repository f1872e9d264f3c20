"""Try the wheel of a folder: ``python .ci/check_wheel.py dist``.

It is unpacked to a folder of its own, which comes before the clone on Python's path, so that files missing from the
wheel are noticed. Dependencies are those of the environment that runs this.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

USE = """
import sys
from pathlib import Path
import certgcl
import certgcl_checker
import certgcl_command

home = Path(sys.argv[1])
for module in (certgcl, certgcl_checker, certgcl_command):
    assert Path(module.__file__).is_relative_to(home), f"{module.__file__} is not of the wheel"
assert (home / "certgcl" / "py.typed").exists()
data = certgcl.load_dataset("karate")
encoder = certgcl.GCNEncoder(data.num_features, 8, 4).eval()
certificate = certgcl.node_compactness(encoder, data, 1, method="degree", proof=True)
certificate.save("certificate.npz")
certgcl.read_network(encoder, data).save("weights.npz")
certgcl.save_graph("graph", data)
print(certgcl.__version__)
"""
TRAIN = ["train", "--dataset", "karate", "--epochs", "2", "--certify", "--out", "run"]
COMMAND = "from certgcl_command import main; main()"
FILES = ["certificate.npz", "--graph", "graph", "--weights", "weights.npz"]
COMMANDS = (["--version"], ["certify", "--help"], TRAIN, ["report", "run", "--sample", "4"])


def main(folder: Path) -> None:
    [wheel] = folder.glob("*.whl")
    [_] = folder.glob("*.tar.gz")
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as place:
        home, work = Path(place, "home"), Path(place, "work")
        work.mkdir()
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(home), str(wheel)]
        subprocess.run(install, check=True)
        environment = os.environ | {"PYTHONPATH": str(home)}

        def run(*words: str) -> str:
            return subprocess.run(
                [sys.executable, *words], check=True, cwd=work, env=environment, stdout=subprocess.PIPE, text=True
            ).stdout

        assert run("-P", "-c", USE, str(home)).strip() == version, "the wheel's name and its version differ"
        for words in COMMANDS:
            run("-P", "-c", COMMAND, *words)
        assert "34 of 34 nodes proved by certgcl_checker" in run("-P", "-c", COMMAND, "verify", *FILES, "--proof")
        assert "34 of 34 bounds proved" in run("-P", "-m", "certgcl_checker", *FILES)
    print(f"{wheel.name}: imports, certifies, proves, trains and reports")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
