"""The text of a PTX module as lists of statements, with a storage place for every register."""

import re
from dataclasses import dataclass, field

BYTES = {"pred": 1, "b8": 1, "u8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
         "b64": 8, "u64": 8, "s64": 8, "f64": 8}


@dataclass
class Statement:
    """One instruction: `@guard operation.modifiers operands`."""

    text: str
    guard: str | None
    modifiers: list[str]
    operands: list[str]


@dataclass
class Body:
    """A kernel or a function: its statements, where its labels are, and what it declares."""

    name: str
    parameters: list[tuple[str, str]]
    most_threads: int = 1024
    statements: list[Statement] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0


@dataclass
class Module:
    """What a PTX file has."""

    kernels: dict[str, Body]
    functions: dict[str, Body]
    dynamic_shared: list[str]
    constants: dict[str, bytes]


def split_operands(text: str) -> list[str]:
    """The operands of a list, at commas that no bracket or brace encloses."""
    operands, depth, current = [], 0, ""
    for char in text:
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            operands.append(current.strip())
            current = ""
        else:
            current += char
    if current.strip():
        operands.append(current.strip())
    return operands


def entry_names(text: str) -> list[str]:
    """The kernels of a module, in the order of its text."""
    return re.findall(r"^\.visible \.entry ([\w$]+)\(", text, re.MULTILINE)


def parse(text: str, only: str | None = None) -> Module:
    """Reads a module, with all of its kernels or one."""
    text = re.sub(r"//[^\n]*", "", text)
    module = Module({}, {}, re.findall(r"\.extern \.shared \.align \d+ \.b8 ([\w$]+)\[\]", text), {})
    for name, numbers in re.findall(r"^\.global [^\n]*?\.b8 ([\w$]+)\[\d+\] = \{([^}]*)\}", text, re.MULTILINE):
        module.constants[name] = bytes(int(number) for number in numbers.split(","))
    head = re.compile(r"^(?:\.visible \.entry|\.func\s+\([^)]*\)) ([\w$]+)\s*\(([^)]*)\)([^{;]*)\{", re.MULTILINE)
    for match in head.finditer(text):
        is_kernel = match[0].startswith(".visible")
        if is_kernel and only not in (None, match[1]):
            continue
        parameters = [tuple(reversed(part.split()[-2:])) for part in match[2].split(",") if part.strip()]
        body = Body(match[1], parameters)
        limit = re.search(r"\.maxntid (\d+)", match[3])
        body.most_threads = int(limit[1]) if limit else 1024
        _read_body(body, text[match.end():_closing(text, match.end())])
        (module.kernels if is_kernel else module.functions)[body.name] = body
    return module


def _closing(text: str, at: int) -> int:
    """Where the brace is that closes the one before `at`."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise ValueError("a body that does not end")


def _pieces(text: str):
    """Braces of scopes, labels, and statements. A brace within a statement encloses operands."""
    current = ""
    for token in re.split(r"([;{}\n])", text):
        if token == ";":
            yield current.strip()
            current = ""
        elif token in "{}" and token:
            operands = current.count("{") > current.count("}") or (token == "{" and current.strip())
            if operands:
                current += token
            else:
                yield token
        elif token == "\n":
            label = re.fullmatch(r"\s*([\w$]+:)\s*", current)
            if label:
                yield label[1]
                current = ""
            else:
                current += " "
        else:
            current += token


def _read_body(body: Body, text: str) -> None:
    scopes: list[dict[str, str]] = [{}]
    count = 0
    for piece in _pieces(text):
        if piece == "{":
            scopes.append({})
        elif piece == "}":
            scopes.pop()
        elif piece.endswith(":"):
            body.labels[piece[:-1]] = len(body.statements)
        elif piece.startswith(".reg"):
            kind, names = re.fullmatch(r"\.reg \.(\w+)\s+(.*)", piece).groups()
            for name in split_operands(names):
                many = re.fullmatch(r"(%\w+?)<(\d+)>", name)
                for one in [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]:
                    count += 1
                    scopes[-1][one] = f"{one}@{count}" if len(scopes) > 1 else one
                    body.registers[scopes[-1][one]] = kind
        elif re.match(r"\.(shared|local) ", piece):
            _place(body, piece)
        elif piece and not piece.startswith("."):
            body.statements.append(_statement(piece, scopes))


def _place(body: Body, declaration: str) -> None:
    space, align, kind, name, count = re.match(
        r"\.(shared|local) \.align (\d+) \.(\w+)\s+([\w$]+)(?:\[(\d+)\])?", declaration).groups()
    size = BYTES[kind] * int(count or 1)
    at = getattr(body, f"{space}_bytes")
    at = -(-at // int(align)) * int(align)
    getattr(body, space)[name] = at
    setattr(body, f"{space}_bytes", at + size)


def _statement(piece: str, scopes: list[dict[str, str]]) -> Statement:
    def scoped(match: re.Match) -> str:
        name = match[0]
        return next((scope[name] for scope in reversed(scopes) if name in scope), name)

    text = re.sub(r"\s+", " ", re.sub(r"%[\w$]+(?:\.[xyz])?", scoped, piece))
    guard, rest = text[1:].split(" ", 1) if text.startswith("@") else (None, text)
    operation, _, operands = rest.strip().partition(" ")
    return Statement(text, guard, operation.replace("::", "_").split("."), split_operands(operands))
