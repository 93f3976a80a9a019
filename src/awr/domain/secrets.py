"""What must never be stored or shown: how a secret looks, and the refusal that does not repeat it.

A first look searches for a few dozen literals and settles almost every text. Only a text that holds one pays for
the patterns, and each pattern is compiled when it is first needed: hook processes live for milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Literal

from awr.errors import RuleViolation

__all__ = ["POLICY_VERSION", "Category", "find_secret", "is_secret_key", "refuse_secrets"]

POLICY_VERSION = 7

Category = Literal["credential", "labelled_value", "environment_dump", "private_prompt"]

_NEXT_ACTION: dict[Category, str] = {
    "credential": "Remove the credential, rotate it if it is real, and write [redacted] in its place.",
    "labelled_value": "Remove the value after the label, or write [redacted] in its place.",
    "environment_dump": "Remove the environment listing and keep only the names that matter.",
    "private_prompt": "Remove the prompt text and refer to it by name.",
}

# Literals without which no credential pattern can match. Upper and lower case matter.
_CREDENTIAL_HINTS = (
    "github_pat_", "xox", "xapp-", "xai-", "gsk_", "hf_", "npm_", "pypi-", "AIza", "ya29.",
    "GOCSPX-", "AKIA", "ASIA", "sk_", "rk_", "whsec_", "dop_v1_", "doo_v1_", "dor_v1_", "SG.", "eyJ", "-----BEGIN",
    "AGE-SECRET-KEY-", "hvs.", "dckr_pat_", "shp", "dapi", "lin_api_", "figd_", "ntn_", "r8_", "pplx-", "sntrys_",
    "rubygems_", "AccountKey=", "hooks.slack.com/", "/webhooks/", ":AA",
)  # fmt: skip

# These stand inside ordinary words too, as in `task-1`, `through` and `global`: only the start of a word counts.
_COMMON_HINTS = ("sk-", "gh", "gl")

# Each token starts where no letter or digit stands before it, so that `task-...` is no `sk-...`.
_TOKENS = (
    r"sk-(?:ant|proj|svcacct|admin|or-v1)-[\w-]{8,}",
    r"sk-(?=[\w-]{0,128}\d)[\w-]{16,128}",
    r"gh[opusr]_\w{16,}",
    r"github_pat_\w{16,}",
    r"gl(?:pat|dt|rt|soat|cbt|ptt|ft|imt|agent|ffct)-[\w.-]{16,}",
    r"glsa_\w{20,}",
    r"xox[a-z]-(?:[\w]-)?[\w-]{10,}",
    r"xapp-[\w-]{10,}",
    r"xai-\w{20,}",
    r"gsk_\w{20,}",
    r"hf_[A-Za-z0-9]{20,}",
    r"npm_[A-Za-z0-9]{20,}",
    r"pypi-[\w-]{16,}",
    r"AIza[\w-]{30,}",
    r"ya29\.[\w-]{16,}",
    r"GOCSPX-[\w-]{16,}",
    r"A(?:KIA|SIA)[0-9A-Z]{16}(?![0-9A-Za-z])",
    r"[sr]k_(?:live|test)_\w{10,}",
    r"whsec_\w{16,}",
    r"do[opr]_v1_\w{16,}",
    r"SG\.[\w-]{16,64}\.[\w-]{16,}",
    r"eyJ[\w-]{8,512}\.[\w-]{8,}\.[\w-]{4,}",
    r"AGE-SECRET-KEY-1\w{20,}",
    r"hvs\.[\w-]{20,}",
    r"dckr_pat_[\w-]{16,}",
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}",
    r"dapi[0-9a-f]{32}",
    r"lin_api_\w{20,}",
    r"figd_[\w-]{20,}",
    r"ntn_\w{20,}",
    r"r8_\w{30,}",
    r"pplx-\w{30,}",
    r"sntrys_[\w+/=]{20,}",
    r"rubygems_[0-9a-f]{20,}",
    r"AccountKey=[\w+/]{40,}",
    r"hooks\.slack\.com/services/\w{6,}/\w{6,}/\w{10,}",
    r"discord(?:app)?\.com/api/webhooks/\d{10,}/[\w-]{20,}",
    r"\d{8,10}:AA[\w-]{30,}",
)

# Words after which a value is a secret. They end a name: `token_count` and `tokens` are no labels.
# Each pattern match starts at one of these literals, found by plain search, because that is ten times faster.
_LABEL_WORDS = (
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "credentials", "credential", "key",
    "密码", "密碼", "口令", "密钥", "密鑰", "秘钥", "私钥", "令牌", "凭证", "凭据",
)  # fmt: skip
_LABEL_HINTS = ("pass", "pwd", "secret", "token", "credential", "key", "密", "口令", "秘钥", "私钥", "令牌", "凭")
_KEY_KINDS = ("api", "access", "private", "secret", "auth")

# What people write after a label when they do not write the value.
_LITERALS = frozenset(
    {
        "true", "false", "yes", "no", "on", "off", "null", "none", "nil", "undefined", "redacted",
        "withheld", "masked", "hidden", "removed", "omitted", "required", "optional", "missing", "empty",
        "unset", "invalid", "expired", "valid", "unknown", "string", "str", "bytes", "number", "integer",
        "int", "boolean", "bool", "object", "any", "text", "todo", "tbd", "n/a", "authentication",
        "header",
    }
)  # fmt: skip
_PLACEHOLDER = (
    r"\*{2,}|x{3,}|X{3,}|\.{2,}|…+|-+|_+"
    r"|<[A-Za-z _.\-]+>|\[[A-Za-z _\-]+\]|\{\{?[A-Za-z _.\-]+\}?\}"
    r"|\$\{[^{}]*\}|\$\{\{[^{}]*\}\}|\$\([^()]*\)|\$[A-Za-z_]\w*|%[A-Za-z_]\w*%"
)
_CODE = (
    r"[A-Za-z_][\w.]*\(.*|(?:self|this|os|process|env|config|settings|args|opts|options|request|secrets|vars|ctx)"
    r"[.\[].*|(?:str|int|bytes|Optional|String|Option|list|dict)(?:[|\[<].*)?"
)

_ENV_NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "SHELL", "PWD", "OLDPWD", "LANG", "LC_ALL", "TERM", "HOSTNAME", "LOGNAME",
        "SHLVL", "TMPDIR", "EDITOR", "DISPLAY", "MAIL", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "VIRTUAL_ENV",
        "PYTHONPATH", "NODE_ENV", "JAVA_HOME", "GOPATH", "DATABASE_URL", "REDIS_URL", "AWS_REGION",
        "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID",
    }
)  # fmt: skip
_ENV_LEAST = 3

_LABEL_KEY = (
    r"(?:^|_)(?:token|secret|password|passwd|passphrase|passcode|pwd|credentials?|api_?key|access_?key|"
    r"private_?key|secret_?key|auth_?key|authorization|bearer)$|(?:^|_)secret_access_key$|密码|密碼|口令|密钥|秘钥|私钥|令牌"
)
_PROMPT_KEY = r"^(?:system|developer|private|hidden)_(?:prompt|instructions?|message)$"
_SCHEMA_VALUES = frozenset({"default", "example", "examples", "value", "values", "const", "enum"})
_NAMING_KEYS = ("name", "key", "label", "field")


#: No pattern matches letters alone that are fewer than these.
_WORD_MOST = 16


def find_secret(text: str) -> Category | None:
    """Return what kind of secret `text` holds, or None. Placeholders such as `[redacted]` are not secrets."""
    if len(text) < _WORD_MOST and text.isalpha() and text.isascii():
        return None  # one plain word, as most keys and states are, is too short for any of the patterns
    if not text.isascii():
        text = _folded(text)
    if _holds_credential(text):
        return "credential"
    lower = text.lower()
    if ("prompt" in lower or "instruction" in lower or "提示" in lower or "指令" in lower) and _pattern(
        "prompt"
    ).search(text):
        return "private_prompt"
    if text.count("=") >= _ENV_LEAST and _is_environment_dump(text):
        return "environment_dump"
    return "labelled_value" if _holds_labelled_value(text, lower) else None


def is_secret_key(name: str) -> bool:
    """Say whether a JSON key of this name holds a secret: `token` and `db_password` do, `input_tokens` does not."""
    return _key_category(name) is not None


def refuse_secrets(
    value: object,
    *,
    what: str,
    location: str | Mapping[str, object] | None = None,
    rule: str | None = None,
    repair: str | None = None,
) -> None:
    """Raise RuleViolation if a JSON-like value or a struct holds a secret anywhere, keys included.

    `what` names the thing in the message and `location` its place; neither may hold content. The report has
    `policy_version`, `category`, `next_action` and the given details, and never the value.
    """
    for category in _categories(value):
        next_action = _NEXT_ACTION[category]
        raise RuleViolation(
            f"{what} holds text that must not be stored or shown",
            got=f"text of the category {category}",
            expected="no credentials, labelled secrets, environment listings or private prompts",
            next_step=next_action,
            policy_version=POLICY_VERSION,
            category=category,
            next_action=next_action,
            location=dict(location) if isinstance(location, Mapping) else location,
            rule=rule,
            repair=repair,
        )


def _categories(value: object) -> Iterator[Category]:
    """Walk a value with its own stack and yield a category for every secret found."""
    # Each entry carries the category that a plain text in this place would have by its key alone.
    pending: list[tuple[object, Category | None]] = [(value, None)]
    while pending:
        item, by_key = pending.pop()
        if isinstance(item, str):
            if by_key is not None and not _is_placeholder(item):
                yield by_key
            if (found := find_secret(item)) is not None:
                yield found
        elif isinstance(item, Mapping):
            yield from _mapping_categories(item)
            pending.extend(_entries(item, by_key))
        elif isinstance(item, list | tuple | set | frozenset):
            pending.extend((each, by_key) for each in item)
        elif (fields := getattr(type(item), "__struct_fields__", None)) is not None:
            pending.append(({name: getattr(item, name) for name in fields}, by_key))


def _mapping_categories(mapping: Mapping[object, object]) -> Iterator[Category]:
    names = [key for key in mapping if isinstance(key, str)]
    if sum(name in _ENV_NAMES and isinstance(mapping[name], str) for name in names) >= _ENV_LEAST:
        yield "environment_dump"
    for name in names:
        if (found := _secret_in_name(name)) is not None:
            yield found


def _entries(mapping: Mapping[object, object], by_key: Category | None) -> Iterator[tuple[object, Category | None]]:
    """Yield the values with what their keys say: a schema's `default` belongs to the property's own name."""
    named = by_key
    for naming in _NAMING_KEYS:
        label = mapping.get(naming)
        if isinstance(label, str):
            named = named or _key_category(label)
    for key, value in mapping.items():
        if not isinstance(key, str):
            yield value, None
        elif key in _SCHEMA_VALUES:
            yield value, named
        else:
            yield value, _key_category(key)


#: Keys come again and again. What they say is remembered for a bounded number of them.
_secret_in_name = lru_cache(maxsize=1024)(find_secret)


@lru_cache(maxsize=1024)
def _key_category(name: str) -> Category | None:
    if len(name) > 256:
        return None
    if not name.isascii():
        name = _folded(name)
    snake = _pattern("camel").sub("_", name).replace("-", "_").replace(" ", "_").replace(".", "_").lower()
    if _pattern("prompt_key").search(snake):
        return "private_prompt"
    return "labelled_value" if _pattern("secret_key").search(snake) else None


def _folded(text: str) -> str:
    """Undo what hides a secret from a pattern: full-width forms and characters without width."""
    table, hiding = _folding()
    return text if hiding.isdisjoint(text) else text.translate(table)


@cache
def _folding() -> tuple[dict[int, int | None], frozenset[str]]:
    invisible = (
        0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180E, 0x3164, 0xFEFF,
        *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), *range(0xFE00, 0xFE10),
        *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0),
    )  # fmt: skip
    table: dict[int, int | None] = dict.fromkeys(invisible)
    table.update({code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)})
    table[0x3000] = 0x20
    return table, frozenset(map(chr, table))


def _starts_token(text: str, hint: str) -> bool:
    """Tell whether the hint stands where a token may begin: with no letter or digit before it."""
    at = text.find(hint)
    while at > 0 and text[at - 1].isalnum():
        at = text.find(hint, at + 1)
    return at >= 0


def _holds_credential(text: str) -> bool:
    begun = any(_starts_token(text, hint) for hint in _COMMON_HINTS)
    if begun or any(hint in text for hint in _CREDENTIAL_HINTS):
        if "-----BEGIN" in text and _pattern("pem").search(text):
            return True
        if _pattern("token").search(text):
            return True
    if "://" in text and "@" in text:
        for match in _pattern("url").finditer(text):
            if not _is_placeholder(match[1]):
                return True
    lower = text.lower()
    if "aws" in lower and _pattern("aws").search(text):
        return True
    if "authorization" in lower and any(_is_header(match, text) for match in _pattern("header").finditer(text)):
        return True
    return ("bearer" in lower or "basic" in lower) and any(
        _is_bare_scheme(match) for match in _pattern("scheme").finditer(text)
    )


def _is_header(match: re.Match[str], text: str) -> bool:
    value = match["value"]
    if _is_placeholder(value) or _is_code(value):
        return False
    if match["scheme"] is None:
        return len(value) >= 12 and _looks_random(value)
    prose = value.isalpha() and text[match.end() : match.end() + 2].strip()[:1].isalpha()
    return len(value) >= 4 and not prose


def _is_bare_scheme(match: re.Match[str]) -> bool:
    value = match["value"]
    if match["scheme"].lower() == "basic" and not value.rstrip(".,;:!?\"'`)]}").endswith("="):
        # A version or a section number follows the word "basic" as well: ask for more.
        return len(value) >= 16 and _looks_random(value) and not _is_placeholder(value)
    return len(value) >= 8 and _looks_random(value) and not _is_placeholder(value)


def _holds_labelled_value(text: str, lower: str) -> bool:
    if len(lower) != len(text):
        text = lower
    for hint in _LABEL_HINTS:
        start = lower.find(hint)
        while start >= 0:
            match = _pattern("labelled").match(text, start)
            if match is not None and _is_label(match, lower) and _is_labelled_value(match, text):
                return True
            start = lower.find(hint, start + 1)
    return False


def _is_label(match: re.Match[str], lower: str) -> bool:
    """Say whether a `key` is one that opens something: an API key, not a primary key."""
    if match["label"].lower() != "key":
        return True
    return lower[max(0, match.start() - 8) : match.start()].rstrip(" \t_-").endswith(_KEY_KINDS)


def _is_labelled_value(match: re.Match[str], text: str) -> bool:
    quoted = match["quoted"]
    if quoted is not None:
        return not _is_placeholder(quoted) and not _is_code(quoted)
    value = match["value"]
    label = match["label"].lower()
    if _is_placeholder(value) or _is_code(value) or (value[0] in "{[(" and not _looks_random(value)):
        return False
    value = value.rstrip(".,;:!?\"'`)]}")
    if value.isdigit() and (label in {"token", "令牌"} or match["verb"]):
        return False
    if label == "pwd" and value[:1] in "/~.$":
        return False
    if match["verb"]:
        return len(value) >= 4 and _looks_random(value)
    if match["sign"].strip() == "=" or not value.isalpha():
        return not (value.isdigit() and len(value) < 3)
    return _stands_alone(match, text, label=label)


def _stands_alone(match: re.Match[str], text: str, *, label: str) -> bool:
    """Say whether a value of letters only is the whole clause: prose goes on after a colon, a password does not."""
    rest = text[match.end() : match.end() + 80].partition("\n")[0].lstrip()
    if rest[:1].isalpha():
        return False
    if label not in {"token", "secret", "credential", "credentials"}:
        return True
    before = text[max(0, match.start() - 80) : match.start()].rpartition("\n")[2]
    # "Token: weekly" after other words is a heading inside a sentence; alone on its line it is an assignment.
    return not before.rstrip("\"'`-_ ")[-1:].isalpha() or before[-1:] in "\"'`-_"


def _is_placeholder(value: str) -> bool:
    bare = value.strip().rstrip(",;")
    if not bare:
        return True
    if bare[0] in "\"'`" and len(bare) > 1:
        bare = bare.strip("\"'`")
    trimmed = bare.rstrip(".,;:!?\"'`)]}")
    if not trimmed or trimmed.lower() in _LITERALS or bare.lower() in _LITERALS:
        return True
    pattern = _pattern("placeholder")
    return any(pattern.fullmatch(form) is not None for form in (bare, trimmed, bare.rstrip("\"'`.,;)")))


def _is_code(value: str) -> bool:
    return _pattern("code").fullmatch(value) is not None


def _looks_random(value: str) -> bool:
    """Say whether letters and digits mix as they do in keys and not in words."""
    if any(character.isdigit() for character in value):
        return not value.rstrip(".,;:!?\"'`)]}").isdigit()
    return any(character in "!@#$%^&*+=" for character in value[:-1]) or (
        len(value) >= 20 and not value.islower() and not value.isupper()
    )


def _is_environment_dump(text: str) -> bool:
    names = {match[1] for match in _pattern("assignment").finditer(text)}
    if len(names) < _ENV_LEAST:
        return False
    telling = sum(name in _ENV_NAMES or is_secret_key(name) for name in names)
    return telling >= _ENV_LEAST or (telling >= 2 and len(names) >= 5)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(*_sources()[name])


@cache
def _sources() -> dict[str, tuple[str, re.RegexFlag]]:
    labels = "|".join(_LABEL_WORDS)
    plain = re.ASCII
    prompt = (
        r"(?:(?:begin[ \t]+)?(?:system|developer|private|hidden)[ _-](?:prompt|instructions?|message)"
        r"|(?:系统|开发者|私有|隐藏)(?:提示词?|指令))"
    )
    # Bounded, so that a hostile text costs no more than its length. A bracketed placeholder may hold spaces.
    value = (
        r"\$\{\{[^{}\n]{0,128}\}\}|\$\{[^{}\n]{0,128}\}|\$\([^()\n]{0,128}\)|<[^<>\n]{0,128}>|\[[A-Za-z _\-]{0,128}\]"
        r"|\{\{[^{}\n]{0,128}\}\}|[!-~]{1,256}"
    )
    return {
        "token": (rf"(?<![A-Za-z0-9])(?:{'|'.join(_TOKENS)})", plain),
        "pem": (r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----", plain),
        "url": (r"://[^\s/@:?#]{0,256}:([^\s/@]{1,512})@", plain),
        "aws": (r"aws.{0,24}?secret.{0,24}?[:=]\s{0,4}[\"']?[A-Za-z0-9/+]{40}", plain | re.IGNORECASE),
        "header": (
            r"authorization[\\\"'`]{0,4}\s{0,4}[:=]\s{0,4}[\\\"'`]{0,4}"
            rf"(?:(?P<scheme>bearer|basic|token|digest)\s{{1,4}})?(?P<value>{value})",
            plain | re.IGNORECASE,
        ),
        "scheme": (
            # The value is only looked at, not consumed: it may itself be the word before a value.
            rf"\b(?P<scheme>bearer|basic)[ \t]{{1,4}}(?=(?P<value>{value}))",
            plain | re.IGNORECASE,
        ),
        "labelled": (
            rf"(?P<label>{labels})[\\\"'`*]{{0,4}}[ \t]{{0,4}}"
            r"(?:(?P<verb>\bis\b|\bwas\b|是|为|為)[ \t]{0,4}[:=]?|(?P<sign>:=|=>|->|[:=]))[ \t]{0,8}"
            r"(?:\*\*[ \t]{0,4}(?=[^*\s]))?"
            rf"(?:\\{{0,3}}[\"'](?P<quoted>[^\"'\n]{{0,4096}})[\"']|(?P<value>{value}))",
            re.IGNORECASE,
        ),
        "placeholder": (_PLACEHOLDER, plain),
        "code": (_CODE, plain),
        "assignment": (
            r"(?:^|(?<=[\s;]))(?:export |set |declare -x )?([A-Z_][A-Z0-9_]*)=(?=\S)",
            plain | re.MULTILINE,
        ),
        "camel": (r"(?<=[a-z0-9])(?=[A-Z])", plain),
        "secret_key": (_LABEL_KEY, re.NOFLAG),
        "prompt_key": (_PROMPT_KEY, plain),
        "prompt": (
            # A heading with a mark or a colon, or one that stands alone after a blank line.
            rf"^[#>=*\[<({{\-\"'` \t]*[#>=*\[<({{\-\"'`][ \t]{{0,4}}{prompt}[^\n\S]{{0,8}}"
            rf"[=*\])>}}\"'`\-:]*\s*[^\s=*\])>}}\"'`\-:]"
            rf"|^[ \t]*{prompt}[ \t]{{0,8}}[\"'`*]{{0,4}}[:=\]>]\s*\S"
            rf"|(?:\A|\n[ \t]*\n)[ \t]*{prompt}[ \t]*\n\s*\S",
            re.IGNORECASE | re.MULTILINE,
        ),
    }
