"""What attackers try, and the test that tries it: advisories of MCP software, and what the spec says servers MUST do.

The attacks of this file go to a real process over a real socket: a server with `auth=JWT(…)`, two users, and the
defaults of everything else. Attacks that need another stage stand in the tests of the part that they attack; the tables
name them.
"""

from __future__ import annotations

import ast
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from auth.support import Issuer, issuing
from inspector.development import TOKEN, developing
from support import DEADLINE, ENVELOPE, MODERN, NOVEMBER, ROOT, free_port, initialize, message, modern, run, serving

TESTS = Path(__file__).parent
SRC = ROOT / "src" / "redstart"

# The advisories, each with the tests that try what it describes. Names without a file are tests of this file.
ADVISORIES: dict[str, tuple[str, ...]] = {
    "DNS rebinding (CVE-2025-66416, CVE-2025-66414, GHSA-89vp-x53w-74fx)": (
        "test_a_page_that_rebinds_its_name_is_refused",
        "transports/test_guard.py::test_hosts",
        "transports/test_run_http.py::test_an_address_that_others_reach_needs_a_name",
    ),
    "WebSocket without a check of the origin (CVE-2026-59950)": (
        "test_there_is_no_websocket",
        "transports/test_http.py::test_websockets_are_refused",
    ),
    "Session hijacking (CVE-2026-52869, CVE-2026-33946)": (
        "test_the_session_of_somebody_else_is_unknown",
        "transports/test_session_owner.py::test_nobody_takes_over_the_session_of_another_user",
        "transports/test_shared.py::test_a_session_of_another_user_is_unknown_in_all_processes",
    ),
    "Tasks of others (CVE-2026-52870)": (
        "tasks/test_transports.py::test_the_task_of_another_user_is_unknown",
        "tasks/test_transports.py::test_tasks_of_callers_that_nobody_knows_are_not_listed",
        "store/test_contract.py::test_a_task_of_somebody_else_is_unknown",
    ),
    "Answers that go to another client (CVE-2026-25536)": (
        "transports/test_http.py::test_a_thousand_clients_with_the_same_id",
        "faults/test_load.py::test_clients_with_the_same_id_see_their_own_answers",
    ),
    "Regular expressions that take for ever (CVE-2026-0621)": (
        "test_a_uri_takes_time_in_proportion",
        "schema/test_uritemplate.py::test_time_is_linear_in_the_uri",
        "schema/test_patterns.py::test_patterns_that_could_take_for_ever_are_refused",
    ),
    "Paths that lead out (CVE-2025-53109, CVE-2026-27735)": (
        "test_no_path_leads_out",
        "features/test_files.py::test_no_uri_leads_out_or_to_what_is_no_file",
        "features/test_files.py::test_no_link_leads_out",
        "schema/test_uritemplate.py::test_a_variable_cannot_climb",
    ),
    "URLs made of arguments (CVE-2026-32871)": ("test_no_argument_becomes_a_url_by_itself",),
    "Tokens for another server (CVE-2025-69196)": (
        "auth/test_issuing.py::test_a_token_for_another_server_CVE_2025_69196",
        "auth/test_issuing.py::test_what_one_endpoint_has_given_out_is_not_taken_by_another_of_the_same_host",
        "auth/test_issuing.py::test_the_tokens_of_the_provider_are_not_taken",
        "test_a_token_for_another_server_is_refused",
        "auth/test_jwt.py::test_bad_tokens",
        "test_a_token_is_never_passed_on",
    ),
    "`OAuthProxy` as a confused deputy (CVE-2026-27124, GHSA-rww4-4w9c-7733, GHSA-6x8h-498w-gv8c, fastmcp#2056)": (
        "auth/test_issuing.py::test_another_browser_at_the_callback_CVE_2026_27124_GHSA_rww4_4w9c_7733",
        "auth/test_issuing.py::test_each_authorization_asks_again_GHSA_6x8h_498w_gv8c",
        "auth/test_issuing.py::test_the_provider_is_reached_only_after_consent_fastmcp_2056",
        "auth/test_issuing.py::test_a_form_counts_only_in_the_browser_that_got_it",
        "auth/test_issuing.py::test_the_cookie_is_bound_to_the_host",
        "auth/test_issuing.py::test_pages_cannot_be_framed_run_no_scripts_and_are_not_kept",
    ),
    "An authorization server that sends people anywhere (RFC 9700, 4.11.2)": (
        "auth/test_issuing.py::test_a_link_to_us_leads_to_no_website_before_anybody_has_agreed",
        "auth/test_issuing.py::test_nothing_is_sent_to_a_redirect_uri_that_is_not_registered",
    ),
    "Requests into the network of the operator (rust-sdk#935, vercel/ai#20578, fastmcp#4294)": (
        "auth/test_fetch.py::test_an_address_that_is_not_public_is_only_for_the_operator",
        "auth/test_fetch.py::test_a_url_that_is_refused_from_anybody",
        "auth/test_fetch.py::test_public_addresses",
        "auth/test_fetch.py::test_it_takes_no_longer_than_its_time",
        "auth/test_issuing.py::test_names_inside_of_the_operators_network_cannot_be_guessed",
    ),
    "Commands in a URL (CVE-2025-6514)": (
        "asking/test_ask_reach.py::test_a_user_is_never_sent_anywhere_odd",
        "test_nothing_is_unpickled_evaluated_or_given_to_a_shell",
    ),
    "A page for development that anybody may use (CVE-2025-49596)": (
        "test_the_page_for_development_is_for_one_person",
        "inspector/test_relay.py::test_others_on_this_machine_cannot_use_the_server_as_this_person",
    ),
    "Configuration that is code (CVE-2026-30623)": (
        "test_a_command_is_not_read_by_a_shell",
        "client/test_target.py::test_what_is_no_target_fails_at_once",
    ),
    "A message that ends the server (CVE-2025-53365, CVE-2025-53366)": (
        "test_no_message_ends_the_server",
        "fuzz/test_fuzz.py::test_a_short_run",
        "transports/test_stdio.py::test_a_bad_line_is_answered_and_the_stream_goes_on",
    ),
    "Two parsers, two meanings (CVE-2026-27896)": (
        "test_a_message_has_one_meaning",
        "test_a_request_has_one_end",
        "test_a_request_has_one_host",
        "protocol/test_strict.py::test_a_key_that_routes_stands_once",
        "transports/test_socket_requests.py::test_requests",
    ),
    "Memory of callers that nobody knows (python-sdk#1283, python-sdk#3300)": (
        "test_only_a_valid_handshake_opens_a_session",
        "transports/test_sessions.py::test_one_caller_evicts_nobody_else_and_no_call_that_runs",
        "transports/test_shares.py::test_streams_have_a_limit_of_their_own",
        "auth/test_issuing.py::test_an_abandoned_page_leaves_nothing_in_the_store",
        "auth/test_issuing.py::test_registrations_take_no_room",
        "transports/test_serve.py::test_a_request_that_trickles_in_is_cut_off",
    ),
    "Noise on stdout (mempalace#864, jumpstarter#383)": (
        "transports/test_stdio.py::test_nothing_but_messages_on_stdout",
        "transports/test_stdio.py::test_a_closed_stderr_does_not_lead_noise_to_stdout",
    ),
    "Words that people do not see (tool poisoning)": (
        "features/test_lists.py::test_what_people_do_not_see_and_models_read_is_refused_with_its_place",
    ),
    "Pickles in a queue": ("test_nothing_is_unpickled_evaluated_or_given_to_a_shell",),
}
# What a server must do: revision 2026-07-28, and 2025-11-25 for sessions.
MUSTS: dict[str, tuple[str, ...]] = {
    "An origin that is not allowed is a 403, for every method and path": (
        "test_an_origin_that_is_not_allowed_is_a_403_for_every_method_and_path",
    ),
    "Headers must agree with the body": (
        "test_headers_that_do_not_agree_with_the_body_are_refused",
        "protocol/test_modern.py::test_the_order_of_the_checks",
        "protocol/test_headers.py::test_parameters",
        "transports/test_http.py::test_a_header_that_decides_stands_once",
    ),
    "Each mistake has its status and code": ("test_each_mistake_has_its_status_and_code",),
    "A requestState is for one user, one call and one server": (
        "test_the_question_of_somebody_else_cannot_be_answered",
        "asking/test_state.py::test_a_state_opens_only_for_what_it_was_made_for",
        "asking/test_state.py::test_an_expired_state_says_so",
        "asking/test_state.py::test_the_next_round_is_served_by_another_server_with_the_same_keys",
        "asking/test_seal.py::test_every_changed_character_is_noticed",
        "asking/test_seal.py::test_rotation",
    ),
    "Nobody is asked who has not said that it can be": (
        "asking/test_ask_reach.py::test_a_client_that_cannot_be_asked",
        "asking/test_ask_reach.py::test_the_modes_that_a_client_declares",
        "asking/test_dialogue_edges.py::test_only_tools_prompts_and_resources_can_ask",
    ),
    "A closed stream is a cancellation, and nothing is sent after it": (
        "transports/test_serve.py::test_a_modern_client_that_hangs_up_leaves_nothing_behind",
        "transports/test_socket_requests.py::test_a_client_that_hangs_up_cancels_its_modern_call",
        "protocol/test_handshake.py::test_a_cancelled_call_gets_nothing_more",
    ),
    "A listener hears only what it asked for": (
        "transports/test_http.py::test_listen_acknowledges_first_and_tells_only_what_was_asked",
        "transports/test_shared.py::test_who_may_not_see_a_resource_is_not_told_of_it_by_any_process",
    ),
    "A modern stream carries no requests, and no log that was not asked for": (
        "test_a_modern_stream_has_no_requests_of_the_server",
        "transports/test_http.py::test_modern_logging_is_asked_for_by_each_request",
    ),
    "Tasks: kept before the answer, one end, one owner": (
        "tasks/test_transports.py::test_the_task_of_another_user_is_unknown",
        "tasks/test_recovery.py::test_the_list_has_the_tasks_of_before",
        "tasks/test_limits.py::test_a_task_that_has_ended_stays_as_it_is",
        "tasks/test_both_protocols.py::test_a_question_that_is_asked_again_has_another_key",
        "tasks/test_both_protocols.py::test_a_modern_client_without_the_extension_is_served_at_once_or_told_what_it_lacks",
        "test_ids_cannot_be_guessed",
    ),
    "Tokens: audience, issuer, time and scope; never in a URL, never passed on": (
        "test_a_token_for_another_server_is_refused",
        "test_a_challenge_names_the_metadata_and_the_scope",
        "test_a_token_in_the_url_is_refused",
        "test_a_token_is_never_passed_on",
        "auth/test_jwt.py::test_bad_tokens",
    ),
    "`OAuthProxy`: consent for each client, redirect URIs to the letter, `state` only after consent": (
        "auth/test_issuing.py::test_each_authorization_asks_again_GHSA_6x8h_498w_gv8c",
        "auth/test_issuing.py::test_nothing_is_sent_to_a_redirect_uri_that_is_not_registered",
        "auth/test_issuing.py::test_the_provider_is_reached_only_after_consent_fastmcp_2056",
        "auth/test_issuing.py::test_the_state_is_for_one_use_and_unknown_ones_lead_nowhere",
        "auth/test_issuing.py::test_many_who_redeem_one_code_at_once",
        "auth/test_issuing.py::test_a_code_that_is_used_twice_ends_the_sign_in",
        "auth/test_issuing.py::test_a_code_is_only_good_for_what_it_was_given_for",
        "auth/test_issuing.py::test_what_a_client_asks_for_wrongly_it_is_told",
        "auth/test_issuing.py::test_refresh_tokens_rotate_and_a_stolen_one_ends_the_sign_in",
        "auth/test_issuing.py::test_a_sign_in_ends_with_tokens_of_our_own",
        "auth/test_proxy_processes.py::test_two_processes_on_one_redis",
    ),
    "Sessions: ids that cannot be guessed, streams that do not cross": (
        "test_ids_cannot_be_guessed",
        "test_the_session_of_somebody_else_is_unknown",
        "transports/test_sessions.py::test_a_session_that_has_ended_stays_ended",
        "transports/test_http.py::test_a_stream_is_replayed_from_the_last_event_and_no_other",
    ),
    "No secret is asked for in a form, and a page is for the user who was asked": (
        "asking/test_form_edges.py::test_a_secret_is_not_asked_for_in_a_form",
        "asking/test_ask_reach.py::test_url_mode",
        "test_the_question_of_somebody_else_cannot_be_answered",
    ),
    "Results keep the promise of their schema, and no schema is fetched": (
        "features/test_results.py::test_a_broken_promise_is_an_error_that_leaks_nothing",
        "schema/test_json_schema.py::test_refused_schemas",
        "schema/test_linear.py::test_a_tangled_schema_is_checked_at_any_depth",
    ),
    "stdout has messages only, and an id is not null": (
        "transports/test_stdio.py::test_nothing_but_messages_on_stdout",
        "protocol/test_strict.py::test_hostile_text",
        "test_each_mistake_has_its_status_and_code",
    ),
}


# ---------------------------------------------------------------- the tables themselves


@cache
def _tests(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", [*ADVISORIES, *MUSTS])
def test_every_row_has_tests_that_are_there(row: str) -> None:
    named = {**ADVISORIES, **MUSTS}[row]
    assert named
    for name in named:
        file, _, test = name.rpartition("::")
        assert test in _tests(file or "test_security.py"), f"{row}: {name} is not there"


def test_every_attack_of_this_file_is_in_a_table() -> None:
    named = {name for names in (*ADVISORIES.values(), *MUSTS.values()) for name in names}
    own = {name for name in _tests("test_security.py") if not re.match("test_every_", name)}
    assert own <= named


def test_every_row_is_in_the_docs() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    for row in (*ADVISORIES, *MUSTS):
        assert row.partition(" (")[0] in text, row


# ---------------------------------------------------------------- the stage

SERVER = """
import sys

from redstart import Context, Directory, Server
from redstart.auth import JWT

auth = JWT(issuer={issuer!r}, audience="http://127.0.0.1:{port}/mcp", scopes="mcp")
server = Server("attacked", version="1", auth=auth, resources=[Directory("files://docs/", {root!r})])


@server.tool
async def whoami(ctx: Context) -> str:
    return ctx.user.subject


@server.tool(scopes="admin", visible=lambda user: True)
async def reset() -> str:
    return "reset"


@server.tool
async def ask(ctx: Context) -> str:
    return await ctx.ask("Your name?", str, key="name")


@server.tool(task="optional")
async def work() -> str:
    return "done"


@server.tool
async def headers(ctx: Context) -> dict[str, str]:
    return dict(ctx.headers)


@server.resource("notes://{{name}}")
async def note(name: str) -> str:
    return name


@server.route("/hook", methods=["GET", "POST"])
async def hook() -> str:
    return "hooked"
"""


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Stage(NamedTuple):
    """The server that is attacked, and the issuer of its tokens."""

    port: int
    issuer: Issuer

    def token(self, subject: str = "ada", scope: str = "mcp", **claims: Any) -> str:
        audience = f"http://127.0.0.1:{self.port}/mcp"
        return self.issuer.token({"sub": subject, "scope": scope, "aud": audience, **claims})

    def send(
        self, body: bytes = b"", headers: Mapping[str, str] = {}, method: str = "POST", target: str = "/mcp"
    ) -> Answer:
        sent = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
            **headers,
        }
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)) as connection:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def modern(
        self, method: str, params: dict[str, Any] | None = None, token: str = "", meta: Mapping[str, Any] = {}
    ) -> Answer:
        """A modern request as it should be, of ada if nobody else is named."""
        params = params or {}
        name = params.get("uri") or params.get("name") or ""
        named = {"Mcp-Name": name} if name.isascii() and name.isprintable() else {}
        said = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named}
        said["Authorization"] = f"Bearer {token or self.token()}"
        return self.send(modern(1, method, params, **meta), said)

    def is_well(self) -> None:
        answer = self.modern("tools/call", {"name": "whoami", "arguments": {}})
        assert answer.json()["result"]["content"][0]["text"] == "ada"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder, port = tmp_path_factory.mktemp("attacked"), free_port()
    (folder / "docs").mkdir()
    (folder / "docs" / "a.txt").write_text("plain")
    (folder / "secret.txt").write_text("the secret of the operator")
    (folder / "docs" / "link.txt").symlink_to(folder / "secret.txt")
    with issuing() as issuer:
        issuer.publish()
        script = folder / "attacked.py"
        script.write_text(SERVER.format(issuer=issuer.url, port=port, root=str(folder / "docs")))
        command = [sys.executable, "-m", "redstart", "run", str(script), "--http", "--port", str(port)]
        with serving(command, port):
            found = Stage(port, issuer)
            found.is_well()
            yield found


PATHS = ("/mcp", "/mcp/", "/hook", "/nothing", "/.well-known/oauth-protected-resource/mcp")
METHODS = ("GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD")


# ---------------------------------------------------------------- pages and names


@pytest.mark.parametrize("path", PATHS)
def test_a_page_that_rebinds_its_name_is_refused(stage: Stage, path: str) -> None:
    bearer = {"Authorization": f"Bearer {stage.token()}"}
    for host in ("evil.example", f"evil.example:{stage.port}", "127.0.0.1.evil.example", "localhost@evil.example", ""):
        assert stage.send(b"{}", {**bearer, "Host": host}, target=path).status == 421, host
        same = {"Host": host, "Origin": f"http://{host}"}
        assert stage.send(b"{}", {**bearer, **same}, target=path).status == 421, host


@pytest.mark.parametrize("path", [*PATHS, "/healthz", "/readyz"])
def test_an_origin_that_is_not_allowed_is_a_403_for_every_method_and_path(stage: Stage, path: str) -> None:
    for method in METHODS:
        for origin in ("https://evil.example", "null", "http://localhost.evil.example", "file://", ""):
            sent = {"Origin": origin, "Authorization": f"Bearer {stage.token()}"}
            answer = stage.send(b"", sent, method=method, target=path)
            assert answer.status == 403, (method, origin)
            assert "access-control-allow-origin" not in answer.headers


def test_there_is_no_websocket(stage: Stage) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Authorization": f"Bearer {stage.token()}"}
    for path in PATHS:
        answer = stage.send(b"", {**upgrade, **key}, method="GET", target=path)
        assert answer.status != 101
        assert "upgrade" not in answer.headers


# ---------------------------------------------------------------- what belongs to somebody


def _session(stage: Stage, subject: str) -> dict[str, str]:
    bearer = {"Authorization": f"Bearer {stage.token(subject)}"}
    opened = stage.send(initialize(NOVEMBER, elicitation={}), bearer)
    return {**bearer, "Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": NOVEMBER}


def test_the_session_of_somebody_else_is_unknown(stage: Stage) -> None:
    ada = _session(stage, "ada")
    stolen = {**ada, "Authorization": f"Bearer {stage.token('bob')}"}
    made_up = {**stolen, "Mcp-Session-Id": "A" * len(ada["Mcp-Session-Id"])}
    for method, body in (("POST", message(1, "tools/list")), ("GET", b""), ("DELETE", b"")):
        resumed = {"Last-Event-ID": "1"} if method == "GET" else {}
        answer, unknown = (stage.send(body, {**who, **resumed}, method=method) for who in (stolen, made_up))
        assert (answer.status, answer.body) == (404, unknown.body)
    assert stage.send(message(1, "tools/list"), ada).status == 200
    without = {name: value for name, value in ada.items() if name != "Authorization"}
    assert stage.send(message(1, "tools/list"), without).status == 401


def test_the_question_of_somebody_else_cannot_be_answered(stage: Stage) -> None:
    able: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    call = {"name": "ask", "arguments": {}}
    asked = stage.modern("tools/call", call, meta=able).json()["result"]
    answers = {"name": {"action": "accept", "content": {"answer": "Eve"}}}
    retry = {**call, "requestState": asked["requestState"], "inputResponses": answers}
    taken = stage.modern("tools/call", retry, stage.token("bob"), meta=able)
    assert taken.json()["error"]["code"] == -32602
    other = stage.modern("tools/call", {**retry, "arguments": {"x": 1}}, meta=able)
    assert other.json()["error"]["code"] == -32602
    assert stage.modern("tools/call", retry, meta=able).json()["result"]["content"][0]["text"] == "Eve"


def test_ids_cannot_be_guessed(stage: Stage) -> None:
    sessions = {_session(stage, "ada")["Mcp-Session-Id"] for _ in range(30)}
    tasks = set()
    able: dict[str, Any] = {
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    }
    for _ in range(30):
        tasks.add(stage.modern("tools/call", {"name": "work", "arguments": {}}, meta=able).json()["result"]["taskId"])
    for ids in (sessions, tasks):
        assert len(ids) == 30
        assert all(re.fullmatch(r"[\x21-\x7e]+", id) and len(id) >= 22 for id in ids)  # 22 of base64 are 128 bits
        common = [column for column in zip(*ids, strict=False) if len(set(column)) > 1]
        assert len(common) >= 20, "most characters of an id are the same in all"


# ---------------------------------------------------------------- tokens


def test_a_token_for_another_server_is_refused(stage: Stage) -> None:
    own = f"http://127.0.0.1:{stage.port}/mcp"
    wrong: list[dict[str, Any]] = [
        *({"aud": aud} for aud in (None, "", "https://other.example", own + "/", own + "x", own.upper(), [], [[own]])),
        *({"aud": aud} for aud in ({"x": own}, own.encode().hex(), f"{own} https://other.example", own[:-4])),
        *({"iss": iss} for iss in (None, "", "https://other.example", stage.issuer.url + "/", [stage.issuer.url])),
        *({"exp": exp} for exp in (None, int(time.time()) - 60, "tomorrow", True)),
        *({"nbf": nbf} for nbf in (int(time.time()) + 600, "now")),
        *({"sub": sub} for sub in (None, "", " ", [], ["ada"])),
    ]
    for claims in wrong:
        answer = stage.modern("tools/list", token=stage.token(**claims))
        assert (answer.status, 'error="invalid_token"' in answer.headers["www-authenticate"]) == (401, True), claims
    assert stage.modern("tools/list", token=stage.token(aud=["https://other.example", own])).status == 200


def test_a_challenge_names_the_metadata_and_the_scope(stage: Stage) -> None:
    metadata = f"http://127.0.0.1:{stage.port}/.well-known/oauth-protected-resource/mcp"
    absent = stage.send(modern(1, "tools/list"), {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})
    assert (absent.status, absent.headers["www-authenticate"]) == (
        401,
        f'Bearer scope="mcp", resource_metadata="{metadata}"',
    )
    weak = stage.modern("tools/call", {"name": "reset", "arguments": {}})
    assert (weak.status, weak.headers["www-authenticate"]) == (
        403,
        f'Bearer error="insufficient_scope", scope="mcp admin", resource_metadata="{metadata}"',
    )
    told = stage.send(method="GET", target=metadata.partition(str(stage.port))[2]).json()
    assert told["resource"] == f"http://127.0.0.1:{stage.port}/mcp"
    assert told["authorization_servers"] == [stage.issuer.url]


def test_a_token_in_the_url_is_refused(stage: Stage) -> None:
    for query in ("access_token={}", "x=1&access_token={}", "access_token={}&access_token=x"):
        target = "/mcp?" + query.format(stage.token())
        answer = stage.send(modern(1, "tools/list"), {"Mcp-Method": "tools/list"}, target=target)
        assert answer.status == 400
        assert stage.token() not in answer.body.decode()
    odd = stage.send(modern(1, "tools/list"), {"Mcp-Method": "tools/list"}, target=f"/mcp?token={stage.token()}")
    assert odd.status == 401


def test_a_token_is_never_passed_on(stage: Stage) -> None:
    """The issuer has seen every request that the server made, and no token; a handler does not see it either."""
    answer = stage.modern("tools/call", {"name": "headers", "arguments": {}})
    assert answer.status == 200
    assert answer.json()["result"]["structuredContent"]["mcp-method"] == "tools/call"
    assert stage.token() not in json.dumps(stage.issuer.headers)
    assert all("authorization" not in headers for headers in stage.issuer.headers)
    assert "bearer" not in answer.body.decode().lower()


# ---------------------------------------------------------------- messages


def test_headers_that_do_not_agree_with_the_body_are_refused(stage: Stage) -> None:
    call = modern(1, "tools/call", {"name": "whoami", "arguments": {}})
    good = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "whoami"}
    good["Authorization"] = f"Bearer {stage.token()}"
    assert stage.send(call, good).status == 200
    for name, values in {
        "MCP-Protocol-Version": (None, "", "2026-07-29", NOVEMBER),
        "Mcp-Method": (None, "", "tools/list", "TOOLS/CALL", "tools/call,"),
        "Mcp-Name": (None, "", "reset", "Whoami", "=?base64?cmVzZXQ=?=", "=?base64?!?=", "=?base64?d2hvYW1p"),
    }.items():
        for value in values:
            sent = {other: text for other, text in good.items() if other != name}
            answer = stage.send(call, sent if value is None else {**sent, name: value})
            assert (answer.status, answer.json()["error"]["code"]) == (400, -32020), (name, value)
            assert answer.json()["id"] == 1
    assert stage.send(call, {**good, "Mcp-Name": "=?base64?d2hvYW1p?="}).status == 200


def test_each_mistake_has_its_status_and_code(stage: Stage) -> None:
    version, capabilities = ENVELOPE.keys()
    sent = {"Authorization": f"Bearer {stage.token()}", "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
    asks = modern(1, "tools/call", {"name": "ask", "arguments": {}})
    unknown = message(1, "tools/list", {"_meta": {**ENVELOPE, version: "2099-01-01"}})
    for body, headers, status, code in (
        (unknown, {"MCP-Protocol-Version": "2099-01-01"}, 400, -32022),
        (modern(1, "no/such"), {"Mcp-Method": "no/such"}, 404, -32601),
        (message(1, "tools/list", {"_meta": {version: MODERN}}), {}, 400, -32602),
        (message(1, "tools/list", {"_meta": {capabilities: {}}}), {}, 400, -32602),
        (message(1, "tools/list", {}), {}, 400, -32602),
        (asks, {"Mcp-Method": "tools/call", "Mcp-Name": "ask"}, 400, -32021),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{}}', {}, 400, -32600),
        (b"[]", {}, 400, -32600),
        (b"{", {}, 400, -32700),
    ):
        answer = stage.send(body, {**sent, **headers})
        assert (answer.status, answer.json()["error"]["code"]) == (status, code), body
    assert stage.send(method="GET", headers=sent).status == 405
    assert stage.send(method="DELETE", headers=sent).status == 405


def test_a_message_has_one_meaning(stage: Stage) -> None:
    """A gateway that reads the first of two keys, or ignores their case, cannot be told another thing than we are."""
    sent = {"Authorization": f"Bearer {stage.token()}", "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}
    sent["Mcp-Name"] = "whoami"
    call = modern(1, "tools/call", {"name": "whoami", "arguments": {}}).decode()
    for old, new in (
        ('"method": "tools/call"', '"method": "tools/list", "method": "tools/call"'),
        ('"method": "tools/call"', '"method": "tools/call", "m\\u0065thod": "tools/list"'),
        ('"name": "whoami"', '"name": "reset", "name": "whoami"'),
        ('"id": 1', '"id": 1, "id": 2'),
        ('"method"', '"Method"'),
        ('"params"', '"PARAMS"'),
        ('"name"', '"Name"'),
        ('"jsonrpc"', '"JSONRPC"'),
    ):
        assert old in call
        answer = stage.send(call.replace(old, new, 1).encode(), sent)
        assert "error" in answer.json(), new
        assert "result" not in answer.json()


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
SIZE, CHUNKED, BODY = b"Content-Length: 40", b"Transfer-Encoding: chunked", b"28\r\n" + PING + b"\r\n0\r\n\r\n"
# The headers and the body of a request whose end two readers could see at two places.
TWO_ENDS: dict[str, tuple[bytes, bytes]] = {
    "a size and chunks": (SIZE + b"\r\n" + CHUNKED, BODY),
    "chunks and a size": (CHUNKED + b"\r\n" + SIZE, BODY),
    "another coding": (b"Transfer-Encoding: xchunked", BODY),
    "a coding after chunked": (b"Transfer-Encoding: chunked, identity", BODY),
    "a space before the colon": (b"Transfer-Encoding : chunked", BODY),
    "a vertical tab": (b"Transfer-Encoding: \x0bchunked", BODY),
    "two sizes": (SIZE + b"\r\nContent-Length: 5", PING),
    "a list of sizes": (SIZE + b", 40", PING),
    "a size with a sign": (b"Content-Length: +40", PING),
    "a size in base 16": (b"Content-Length: 0x28", PING),
    "a folded line": (b"X: a\r\n Content-Length: 0\r\n" + SIZE, PING),
    "a carriage return": (b"X: a\rContent-Length: 0\r\n" + SIZE, PING),
    "a NUL": (b"X: a\x00b\r\n" + SIZE, PING),
    "a chunk in base 16": (CHUNKED, b"0x" + BODY),
    "a chunk without CR": (CHUNKED, BODY.replace(b"\r\n", b"\n")),
    "a chunk with more": (CHUNKED, BODY.replace(b"}\r", b"}XX\r")),
    "a chunk that is too large": (CHUNKED, b"f" * 17 + b"\r\n" + PING),
}


@pytest.mark.parametrize("what", TWO_ENDS)
def test_a_request_has_one_end(stage: Stage, what: str) -> None:
    """Request smuggling: the request is refused, the connection ends, and what follows is not read as a request."""
    headers, body = TWO_ENDS[what]
    token = stage.token().encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b\r\n%b\r\n\r\n" % (token, headers)
    with socket.create_connection(("127.0.0.1", stage.port), timeout=DEADLINE) as connection:
        connection.sendall(head + body + b"GET /hook HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        found = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                found += part
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"400"]


def test_a_request_has_one_host(stage: Stage) -> None:
    """The host of an absolute URL counts, and not the header beside it."""
    for target, host, status in (
        ("http://evil.example/hook", "127.0.0.1", 421),
        ("http://evil.example?x=http://127.0.0.1/hook", "127.0.0.1", 421),
        ("http://127.0.0.1@evil.example/hook", "127.0.0.1", 421),
        ("http://127.0.0.1/hook", "evil.example", 200),
        ("HTTP://127.0.0.1/hook", "127.0.0.1", 200),
    ):
        assert stage.send(headers={"Host": host}, method="GET", target=target).status == status, target


def test_no_message_ends_the_server(stage: Stage) -> None:
    sent = {"Authorization": f"Bearer {stage.token()}", "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}
    sent["Mcp-Name"] = "whoami"
    hostile = (
        b"[" * 100_000, b'{"a":' * 100_000, b"9" * 1_000_000, b'{"id":' + b"1" * 5000 + b"}", b"\xff\xfe",
        b"\x00" * 1000, b"NaN",
        b'{"jsonrpc":"2.0","id":1e999,"method":"x"}', b'{"jsonrpc":"2.0","id":"\\ud800","method":"x"}',
        b"\xef\xbb\xbf{}",
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":[]}}', b'"x"', b"null", b"",
        b'{"jsonrpc":"2.0","id":{},"method":"notifications/cancelled","params":{"requestId":{}}}',
        b"[" + b"{}," * 50_000 + b"{}]",
    )  # fmt: skip
    for body in hostile:
        began = time.monotonic()
        answer = stage.send(body, sent)
        assert 400 <= answer.status < 500, (body[:50], answer)
        assert time.monotonic() - began < 2, body[:50]
    assert stage.send(b"", {**sent, "Content-Length": str(5 * 1024 * 1024)}).status == 413
    for raw in (
        b"\x00" * 5000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"\r\n" * 500,
    ):
        with socket.create_connection(("127.0.0.1", stage.port), timeout=DEADLINE) as connection:
            connection.sendall(raw)
    stage.is_well()


def test_only_a_valid_handshake_opens_a_session(stage: Stage) -> None:
    bearer = {"Authorization": f"Bearer {stage.token()}"}
    opening = json.loads(initialize(NOVEMBER))
    for body in (
        message(1, "tools/list"),
        message(None, "notifications/initialized"),
        message(1, "initialize", []),
        message(1, "initialize", {**opening["params"], "protocolVersion": 7}),
        json.dumps({**opening, "id": None}).encode(),
        modern(1, "initialize", opening["params"]),
    ):
        answer = stage.send(body, bearer)
        assert "error" in answer.json(), body
        assert "mcp-session-id" not in answer.headers
    for _ in range(100):  # a flood of streams without a session takes no place
        assert stage.send(method="GET", headers={**bearer, "Accept": "text/event-stream"}).status == 405
    assert "mcp-session-id" not in stage.send(initialize(NOVEMBER)).headers
    assert "mcp-session-id" in stage.send(initialize(NOVEMBER), bearer).headers


def test_a_modern_stream_has_no_requests_of_the_server(stage: Stage) -> None:
    able: dict[str, Any] = {
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    }
    answer = stage.modern("tools/call", {"name": "ask", "arguments": {}}, meta={"progressToken": 1, **able})
    data = [line[6:] for line in answer.body.split(b"\n") if line.startswith(b"data: ")] or [answer.body]
    found = [json.loads(part) for part in data if part]
    assert not [one for one in found if "method" in one and "id" in one]
    assert found[-1]["result"]["resultType"] == "input_required"
    assert "mcp-session-id" not in answer.headers


# ---------------------------------------------------------------- URIs and paths


def test_a_uri_takes_time_in_proportion(stage: Stage) -> None:
    for uri in ("notes://" + "a" * 60_000, "notes://" + "%61" * 20_000 + "/", "notes://" + "{" * 30_000, "n" * 60_000):
        began = time.monotonic()
        assert stage.modern("resources/read", {"uri": uri}).status in (200, 400, 404)
        assert time.monotonic() - began < 2


OUT = (
    "../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "%252e%252e%252fsecret.txt", "..\\secret.txt",
    "..%5csecret.txt", "link.txt", "/etc/passwd", "%2fetc%2fpasswd", "a.txt%00", "a.txt/../../secret.txt",
    "file:///etc/passwd",
)  # fmt: skip


@pytest.mark.parametrize("path", OUT)
def test_no_path_leads_out(stage: Stage, path: str) -> None:
    for uri in (f"files://docs/{path}", f"notes://{path}"):
        answer = stage.modern("resources/read", {"uri": uri})
        assert b"the secret of the operator" not in answer.body
        assert b"root:" not in answer.body
        if uri.startswith("files:"):
            assert "error" in answer.json()
    plain = stage.modern("resources/read", {"uri": "files://docs/a.txt"})
    assert plain.json()["result"]["contents"][0]["text"] == "plain"


# ---------------------------------------------------------------- code


@cache
def _source() -> list[tuple[str, ast.AST]]:
    """Each file's name and the nodes of its tree that matter below: imports and calls."""
    kinds = ast.Import | ast.ImportFrom | ast.Call
    return [
        (path.relative_to(SRC).as_posix(), node)
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds)
    ]


def _imported() -> Iterator[tuple[str, str]]:
    for file, node in _source():
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from ((file, name) for name in names)


def test_no_argument_becomes_a_url_by_itself() -> None:
    """In a server only the fetcher of `auth=` opens connections to other hosts: no argument of a tool can.

    The client, the commands that a person types and the tests of servers do so too.
    """
    outgoing = {"httpx2", "httpx", "urllib.request", "http.client", "requests", "aiohttp"}
    found = {file for file, name in _imported() if name in outgoing}
    ours = {"auth/fetch.py", "transports/pinned.py"}
    assert {file for file in found if not file.startswith(("client/", "cli/", "testing/"))} == ours


def test_nothing_is_unpickled_evaluated_or_given_to_a_shell() -> None:
    forbidden = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    assert not [(file, name) for file, name in _imported() if name.split(".")[0] in forbidden]
    shells = {"os.system", "os.popen", "subprocess.getoutput", "asyncio.create_subprocess_shell", "yaml.load"}
    last = {name.rpartition(".")[2] for name in shells}
    evaluated = set()
    for file, call in _source():
        if isinstance(call, ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id in ("eval", "exec", "compile"):
                evaluated.add(file)
            if isinstance(call.func, ast.Attribute) and call.func.attr in last:
                assert ast.unparse(call.func) not in shells, f"{file}:{call.lineno}"
            for keyword in call.keywords:
                assert keyword.arg != "shell", f"{file}:{call.lineno}"
    assert evaluated == {"schema/types.py"}  # annotations of the application's own code


def test_the_page_for_development_is_for_one_person(tmp_path: Path) -> None:
    """`redstart dev` listens on this machine, and tells and does nothing without the token that the terminal shows."""

    async def main() -> None:
        async with developing(tmp_path) as running:
            assert running.origin.startswith("http://127.0.0.1:")
            assert len(running.token) >= 22
            asked = [(running.get, "/_redstart/state"), (running.get, "/_redstart/events")]
            asked += [(running.post, "/_redstart/reload"), (running.post, "/_redstart/forget")]
            for ask, path in asked:
                for token in ("", "x", running.token[:-1], running.token + "x"):
                    assert (await ask(path, **{TOKEN: token})).status_code == 401
                    assert (await ask(f"{path}?token={running.token}", **{TOKEN: token})).status_code == 401
                assert (await ask(path, Origin="https://evil.example")).status_code == 403
                assert (await ask(path, Host="evil.example")).status_code == 421
            page = await running.get("/", **{TOKEN: ""})
            assert running.token not in page.text
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
            assert (await running.get("/_redstart/state")).status_code == 200

    run(main())


def test_a_command_is_not_read_by_a_shell(tmp_path: Path) -> None:
    """A client runs a list of words; what a shell would read in them is only text."""
    mark = tmp_path / "mark"
    program = (
        "import asyncio, sys\n"
        "from redstart import Client\n"
        "async def main():\n"
        "    try:\n"
        "        async with Client([sys.executable, '-c', 'import sys; sys.exit(3)', sys.argv[1]]): pass\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
        "asyncio.run(main())\n"
    )
    hostile = f"; touch {mark} & $(touch {mark}) `touch {mark}` | touch {mark}"
    done = subprocess.run([sys.executable, "-c", program, hostile], capture_output=True, timeout=DEADLINE, check=True)
    assert done.stdout.strip()
    assert not mark.exists()
