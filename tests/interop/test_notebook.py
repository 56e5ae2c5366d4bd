"""A real notebook: a kernel of Jupyter runs the cells, and a client calls from another cell."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

CELLS = [
    """
from redstart import Client, Server

server = Server("lab")
""",
    """
@server.tool
def answer() -> int:
    return 42
""",
    "served = server.serve_background(port=0)\nserved",
    """
client = await Client(served.url).__aenter__()
listening = client.listen(tools=True)
events = await listening.__aenter__()
(await client.call_tool("answer")).data
""",
    """
@server.tool
def answer(more: int = 0) -> int:
    return 43 + more
""",
    """
changed = await anext(aiter(events))
changed.kind, (await client.call_tool("answer", {"more": 1})).data
""",
    "await listening.__aexit__(None, None, None)\nawait client.__aexit__(None, None, None)\nserved.stop()",
]


def test_a_cell_that_is_run_again_replaces_its_tool_and_clients_learn_of_it() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=50, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert outputs[2][0]["data"]["text/html"].startswith("<p><b>lab</b> is served at <code>http://127.0.0.1:")
    assert outputs[3][-1]["data"]["text/plain"] == "42"
    assert outputs[5][-1]["data"]["text/plain"] == "('tools', 44)"
    assert outputs[4] == []  # no warning that the tool is registered twice
