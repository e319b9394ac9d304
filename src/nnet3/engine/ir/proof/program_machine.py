"""ProgramMachine: runs the commands of a program on elements of the field."""

from __future__ import annotations

from nnet3.engine.ir.commands_control import Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import AccessMode, Command
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.repeats import with_references_moved
from nnet3.engine.ir.shape_rules import overlap

_ONCE = Repeat(iterations=1, length=1)


class ProgramMachine(Machine):
    """The state of a run of a program. `number`: of the command that runs."""

    computation: NnetComputation
    number = 0

    def run(self) -> None:
        """Run the program, each Repeat iteration by iteration."""
        computation = self.computation
        self._moving = frozenset(computation.moving_submatrices())
        for bound in computation.outside:
            self.begin(bound.submatrix, zeroed=True)
            self.write(bound.submatrix, self._named(("outside", bound.name), bound.submatrix))
        bodies = {body.start - 1: (repeat, body) for repeat, body in computation.repeats()}
        number = 0
        while number < len(computation.commands):
            repeat, body = bodies.get(number, (_ONCE, range(number, number + 1)))
            for self._iteration in range(repeat.iterations):
                for self.number in body:
                    self._evaluate(with_references_moved(computation.commands[self.number], repeat, self._iteration))
            self._iteration, number = 0, body.stop
        for bound in computation.outside:
            if bound.writable:
                self.outputs["memory", bound.name, 0] = self.read(bound.submatrix)
        for kept in (self._memory, self.memos, self.calls):  # which refer to the machine: programs are large
            kept.clear()

    def _evaluate(self, command: Command) -> None:
        command.evaluate(self)
        for submatrix in self._spoiled(command):
            self.write(submatrix, self._random(self.read(submatrix).shape))

    def _spoiled(self, command: Command) -> list[int]:
        """Returns the sub-matrices overwritten by a command still reading them."""
        blocks = self.computation.submatrices
        matrices = [blocks[number].matrix for number in command.schema.operands(command) if number]
        if len(matrices) == len(set(matrices)) and not command.schema.table_fields:
            return []
        accesses = command.accesses(self.computation)
        written = [access for access in accesses if access.mode != AccessMode.READ]
        allowed = command.in_place_pairs(self.computation)
        return [
            one.submatrix
            for one in written
            for other in accesses
            if other is not one
            and blocks[one.submatrix].matrix == blocks[other.submatrix].matrix
            and (other.submatrix, one.submatrix) not in allowed
            and (other.mode == AccessMode.READ or one.mode == AccessMode.WRITE)
            and overlap(self.at_iteration(one.submatrix), self.at_iteration(other.submatrix))
        ]
