"""Secrets of every kind are found, ordinary text is left alone, and a refusal never repeats the value."""

from __future__ import annotations

import json
import string
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.secrets import POLICY_VERSION, find_secret, is_secret_key, refuse_secrets
from awr.errors import RuleViolation

UPPER = string.ascii_uppercase + string.digits
WORD = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def made(alphabet: str, size: int) -> st.SearchStrategy[str]:
    """A random text that mixes letters and digits, as a real key does."""
    return st.text(alphabet, min_size=size, max_size=size).map(lambda body: body[:-2] + "7a")


credentials = st.one_of(
    made(WORD, 40).map(lambda body: "sk-" + body),
    made(WORD, 40).map(lambda body: "sk-ant-api03-" + body),
    made(WORD, 40).map(lambda body: "sk-proj-" + body),
    made(WORD, 36).map(lambda body: "ghp_" + body),
    made(WORD, 36).map(lambda body: "github_pat_" + body),
    made(WORD, 20).map(lambda body: "glpat-" + body),
    made(WORD, 24).map(lambda body: "xoxb-" + body),
    made(WORD, 35).map(lambda body: "AIza" + body),
    st.text(UPPER, min_size=16, max_size=16).map(lambda body: "AKIA" + body),
    made(WORD, 40).map(lambda body: f"aws_secret_access_key = {body}"),
    made(WORD, 36).map(lambda body: "npm_" + body),
    made(WORD, 60).map(lambda body: "pypi-" + body),
    made(WORD, 24).map(lambda body: "sk_live_" + body),
    made(WORD, 34).map(lambda body: "hf_" + body),
    made(HEX, 64).map(lambda body: "dop_v1_" + body),
    made(WORD, 20).map(lambda body: f"eyJ{body}.eyJ{body}.{body}"),
    made(WORD, 64).map(lambda body: f"-----BEGIN RSA PRIVATE KEY-----\n{body}"),
    made(WORD, 12).map(lambda body: f"https://bob:{body}@example.com/path"),
    made(WORD, 20).map(lambda body: f"Authorization: Bearer {body}"),
    made(WORD, 20).map(lambda body: f"Authorization: Basic {body}=="),
    made(WORD, 30).map(lambda body: f"bearer {body}"),
)
labels = st.sampled_from(
    [
        "password",
        "Password",
        "DB_PASSWORD",
        "passphrase",
        "secret",
        "client_secret",
        "api key",
        "API_KEY",
        "apiKey",
        "access-key",
        "token",
        "GITHUB_TOKEN",
        "密码",
        "密钥",
        "令牌",
    ]
)
labelled = st.builds(
    lambda label, sign, body: f"{label}{sign}{body}",
    labels,
    st.sampled_from([": ", ":", "=", " = ", "：", '="', " => "]),
    made(WORD, 10),
)
PROSE_WORDS = """
the reader walks one file and rotates its window weekly while a token budget of passwords is kept
by tasks near keys or basic bearer secrets about system design before compaction
"""
prose = st.lists(
    st.sampled_from(PROSE_WORDS.split()),
    min_size=1,
    max_size=25,
).map(" ".join)


@given(prose, credentials, prose)
def test_credential_inside_any_text_is_found(before: str, secret: str, after: str) -> None:
    assert find_secret(f"{before} \n{secret} {after}") == "credential"


@given(prose, labelled, prose)
def test_labelled_value_inside_any_text_is_found(before: str, secret: str, after: str) -> None:
    assert find_secret(f"{before}\n{secret}\n{after}") == "labelled_value"


@given(st.one_of(credentials, labelled), prose)
def test_report_of_a_refusal_never_holds_the_value(secret: str, around: str) -> None:
    with pytest.raises(RuleViolation) as raised:
        refuse_secrets({"note": [around, {"deep": secret}]}, what="the note", location="/note")
    report = json.dumps(raised.value.report(), ensure_ascii=False)
    assert secret not in report
    assert secret.split()[-1] not in report
    assert secret not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "password: x",
        "token=x",
        "api key is x9f3k2",
        'PASSWORD="hunter two"',
        "ｐａｓｓｗｏｒｄ：hunter2",
        "pass\u200bword: hunter2",
        "密码是abc123XYZ",
        '{"token":"abc"}',
        'payload {\\"password\\":\\"hunter2\\"}',
        "password: **bar1**",
        "password: 123456",
        "Password: swordfish.",
    ],
)
def test_label_in_every_spelling_is_found(text: str) -> None:
    assert find_secret(text) == "labelled_value"


@pytest.mark.parametrize(
    "text",
    [
        "basic bearer 0a9s8d7f6g5h4j3k",
        "sk\u200b-ant-api03-abcdefgh1234",
        "ＡＫＩＡIOSFODNN7EXAMPLE",
        "redis://:abc9@cache/0",
    ],
)
def test_hidden_or_short_credential_is_found(text: str) -> None:
    assert find_secret(text) == "credential"


@pytest.mark.parametrize(
    "text",
    [
        "PATH=/usr/bin\nHOME=/root\nUSER=root\n",
        "export SHELL=/bin/sh\nexport TERM=xterm\nexport LANG=C\n",
        "PATH=/bin HOME=/root LOGNAME=root",
    ],
)
def test_environment_listing_is_found(text: str) -> None:
    assert find_secret(text) == "environment_dump"


@pytest.mark.parametrize(
    "text",
    [
        "# System prompt\n\nYou are a helper",
        "System prompt: You are a helper",
        "notes\n\n**Developer instructions**\nDo this",
        "DEVELOPER INSTRUCTIONS\n=====\nDo not tell",
        "## 系统提示词\n你是助手",
        "<system_prompt>\nYou are",
    ],
)
def test_private_prompt_heading_with_text_is_found(text: str) -> None:
    assert find_secret(text) == "private_prompt"


@pytest.mark.parametrize(
    "placeholder",
    [
        "[redacted]",
        "<redacted>",
        "[withheld]",
        "***",
        "${NAME}",
        "$NAME",
        "null",
        "None",
        '"[redacted]"',
        "<your token>",
        "${{ secrets.TOKEN }}",
        "true",
        "get_token()",
        "xxxx",
        "[redacted],",
    ],
)
@pytest.mark.parametrize("label", ["token: ", "PASSWORD=", "api_key = ", "密码：", "Authorization: Bearer "])
def test_placeholder_after_any_label_passes(label: str, placeholder: str) -> None:
    assert find_secret(label + placeholder) is None


@pytest.mark.parametrize(
    "text",
    [
        "01J8ZQ4Y6V9K3M2N1P0R5S7T8W",
        "297e1334-3132-4f4e-b0ec-31b053825a96",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "claude-opus-4-8 and gpt-5.3-codex",
        "claude-code:297e1334-3132-4f4e-b0ec-31b053825a96;window=env",
        "rotate the token weekly",
        "password reset flow",
        "Build the password reset flow: email first, then the form",
        "Implement token: refresh flow",
        "the api key is missing and the password is required",
        "before_tokens: 200000 input_tokens=5 token: 4096 max token=200000",
        "primary key: id, foreign key = users.id",
        "RUST_BACKTRACE=1 cargo test --all",
        "PATH=/x HOME=/y make",
        "authorization: required",
        "授权令牌由运维保管，密码是必填项",
        "Bearer token authentication and a basic understanding",
        "risk-assessment-of-1234567890 task-12345678901234567890",
        "https://example.com/a:b/c@d and git@github.com:org/repo.git",
        "Update the system prompt for review\n\nthen ship",
        "src/awr/domain/secrets.py design.md#token-budget o200k_base",
        "def f(password: str, token: bytes | None) -> None",
        '"password": {"type": "string"}',
        "A=1\nB=2\nC=3\nD=4",
    ],
)
def test_ordinary_text_passes(text: str) -> None:
    assert find_secret(text) is None


@given(
    st.one_of(
        st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26).map(lambda body: "0" + body[1:]),
        st.uuids().map(str),
        st.text(HEX, min_size=40, max_size=64),
        st.from_regex(r"[a-z]{2,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True).map(lambda body: "task/" + body),
        st.integers().map(str),
        prose,
    )
)
def test_identifiers_and_prose_pass(text: str) -> None:
    assert find_secret(text) is None
    assert find_secret(f"see {text}; then go on") is None


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "access_token",
        "client_secret",
        "db_password",
        "api_key",
        "apiKey",
        "accessToken",
        "x-api-key",
        "密码",
    ],
)
def test_key_that_names_a_secret_is_refused_with_any_text_but_a_placeholder(key: str) -> None:
    assert is_secret_key(key)
    with pytest.raises(RuleViolation) as raised:
        refuse_secrets({"outer": [{key: "plain words"}]}, what="the input")
    assert raised.value.details["category"] == "labelled_value"
    refuse_secrets({key: "[redacted]"}, what="the input")
    refuse_secrets({key: None}, what="the input")


@pytest.mark.parametrize(
    "key",
    [
        "before_tokens",
        "input_tokens",
        "context_window_tokens",
        "tokenizer",
        "token_count",
        "context_hash",
        "token_env",
        "primary_key",
        "operation_key",
        "request_key",
        "external_key",
        "keys",
    ],
)
def test_key_that_counts_or_identifies_passes(key: str) -> None:
    assert not is_secret_key(key)
    refuse_secrets({key: "some words", "n": 5}, what="the input")


def test_number_under_a_secret_key_passes() -> None:
    refuse_secrets({"token": 5, "password": True}, what="the input")


@pytest.mark.parametrize(
    "value",
    [
        {"properties": {"password": {"type": "string", "default": "swordfish"}}},
        {"properties": {"api_key": {"examples": ["swordfish"]}}},
        {"name": "db_password", "value": "swordfish"},
        {"password": ["swordfish"]},
    ],
)
def test_value_that_belongs_to_a_secret_name_is_refused(value: object) -> None:
    with pytest.raises(RuleViolation) as raised:
        refuse_secrets(value, what="the input")
    assert "swordfish" not in json.dumps(raised.value.report())


def test_secret_used_as_a_key_is_refused() -> None:
    with pytest.raises(RuleViolation):
        refuse_secrets({"ghp_abcdefghijklmnopqrstuvwxyz0123456789": 1}, what="the input")


def test_environment_as_a_map_is_refused() -> None:
    with pytest.raises(RuleViolation) as raised:
        refuse_secrets({"env": {"PATH": "/bin", "HOME": "/root", "SHELL": "/bin/sh"}}, what="the input")
    assert raised.value.details["category"] == "environment_dump"


def test_private_prompt_under_its_own_key_is_refused() -> None:
    with pytest.raises(RuleViolation) as raised:
        refuse_secrets({"system_prompt": "You are a helper"}, what="the input")
    assert raised.value.details["category"] == "private_prompt"


class Note(msgspec.Struct, frozen=True):
    body: str
    auth_token: str | None = None


def test_struct_is_walked_with_its_field_names() -> None:
    refuse_secrets(Note(body="fine"), what="the note")
    with pytest.raises(RuleViolation):
        refuse_secrets((Note(body="fine", auth_token="words"),), what="the note")


def test_refusal_tells_policy_category_place_and_what_to_do() -> None:
    with pytest.raises(RuleViolation) as raised:
        refuse_secrets("password: hunter2", what="the note", location={"line": 3}, rule="source.public_content")
    details = raised.value.details
    assert details["policy_version"] == POLICY_VERSION
    assert details["category"] == "labelled_value"
    assert details["location"] == {"line": 3}
    assert details["rule"] == "source.public_content"
    assert str(details["next_action"]).endswith(".")
    assert "repair" not in details


def test_very_deep_value_is_walked_without_recursion() -> None:
    value: object = "password: hunter2"
    for _ in range(50_000):
        value = [value]
    with pytest.raises(RuleViolation):
        refuse_secrets(value, what="the input")


@pytest.mark.parametrize(
    "text",
    [
        "#" * 300_000 + " prompt",
        " " * 300_000 + "prompt",
        "\n" * 300_000 + "prompt",
        "token={" * 40_000,
        "sk-" * 100_000,
        "eyJ-" * 75_000,
        "://a:b" * 50_000 + "@",
        "authorization: " * 20_000,
        "bearer " * 40_000,
        "key" * 100_000,
        "# system prompt" + "=" * 300_000,
    ],
)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    start = time.process_time()
    find_secret(text)
    # A quadratic pattern would need minutes; the bound leaves room for a slow machine.
    assert time.process_time() - start < 5
