"""Memory for tables that is used again, unless a gradient may need it."""

import torch

from certgcl.bounds.compiled.workspace import Workspace, fresh

LIKE = torch.zeros(1, dtype=torch.float32)


def test_without_gradients_the_next_table_of_a_name_is_written_over_the_last() -> None:
    workspace = Workspace()
    with torch.no_grad():
        first = workspace("phi", LIKE, 4, 3)
        second = workspace("phi", LIKE, 2, 5)
        assert second.shape == (2, 5)
        assert second.data_ptr() == first.data_ptr()
        assert workspace("other", LIKE, 4, 3).data_ptr() != first.data_ptr()


def test_a_larger_table_gets_memory_of_its_own() -> None:
    workspace = Workspace()
    with torch.no_grad():
        first = workspace("phi", LIKE, 2, 2)
        first.fill_(7)
        workspace("phi", LIKE, 3, 3).fill_(0)
        assert (first == 7).all()


def test_what_is_cleared_is_not_used_again() -> None:
    workspace = Workspace()
    with torch.no_grad():
        first = workspace("phi", LIKE, 2, 2)
        workspace.clear()
        assert workspace("phi", LIKE, 2, 2).data_ptr() != first.data_ptr()


def test_where_gradients_are_computed_nothing_is_written_over() -> None:
    workspace = Workspace()
    assert workspace("phi", LIKE, 4).data_ptr() != workspace("phi", LIKE, 4).data_ptr()


def test_fresh_memory_has_the_precision_asked_for() -> None:
    assert [fresh(LIKE.to(dtype), 2, 3).dtype for dtype in (torch.float32, torch.float64)] == [
        torch.float32,
        torch.float64,
    ]
