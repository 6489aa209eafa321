"""A kernel as a list of instructions that are ready to be executed."""

from functools import lru_cache

import accesses
import operations
import ptx_text


class Instruction:
    """A statement, ready to be executed."""

    __slots__ = ("text", "guard", "negated", "kind", "target", "execute")

    def __init__(self, statement: ptx_text.Statement, names: operations.Names):
        self.text = statement.text
        self.negated = bool(statement.guard) and statement.guard.startswith("!")
        self.guard = names.rows[statement.guard.lstrip("!")] if statement.guard else None
        operation = statement.modifiers[0]
        self.kind, self.target, self.execute = "plain", None, None
        if operation in ("bra", "ret", "call", "exit"):
            self.kind = "ret" if operation == "exit" else operation
            self.target = statement.operands
        elif operation == "bar" and statement.modifiers[1] == "sync":
            if statement.operands != ["0"]:
                raise operations.Unsupported(statement.text)
            self.kind = "barrier"
        else:
            self.execute = operations.compile_statement(names, statement) or accesses.compile_statement(names, statement)
            if self.execute is None:
                raise operations.Unsupported(statement.text)
            if operation in ("atom", "membar", "fence") and "shared" not in statement.modifiers:
                self.kind = "handover"


class Kernel:
    """A kernel with the functions that it calls, in one list of instructions."""

    def __init__(self, module: ptx_text.Module, body: ptx_text.Body):
        self.body, self.constants = body, module.constants
        self.dynamic_at = -(-body.shared_bytes // 16) * 16
        self.instructions: list[Instruction] = []
        self.kinds: list[str] = []
        self.entries: dict[str, int] = {}
        self._add(body, module)
        for function in module.functions.values():
            if any(i.kind == "call" and i.target[1] == function.name for i in self.instructions):
                self._add(function, module)
        self.functions = module.functions

    def _add(self, body, module):
        symbols = body.shared | {name: self.dynamic_at for name in module.dynamic_shared} | body.local
        names = operations.Names(body, len(self.kinds), symbols)
        first = self.entries[body.name] = len(self.instructions)
        self.kinds += body.registers.values()
        for statement in body.statements:
            instruction = Instruction(statement, names)
            if instruction.kind == "bra":
                instruction.target = first + body.labels[instruction.target[0]]
            self.instructions.append(instruction)

    def local_bytes(self) -> int:
        """Bytes of local memory of a thread; a kernel and its function have the same ones."""
        return max(self.functions[name].local_bytes if name in self.functions else self.body.local_bytes for name in self.entries)


@lru_cache(maxsize=24)
def compiled(text: str, name: str) -> Kernel:
    """A kernel of a module's text. A process runs many cases of one kernel."""
    module = ptx_text.parse(text, only=name)
    return Kernel(module, module.kernels[name])
