"""Which sums are convolutions, read from the indices of what they multiply and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relax_mlir.dialects.convolution_shapes import ConvolutionShape, span
from relax_mlir.indexing import Linear
from relax_mlir.schedules.rule import Refusal

__all__ = ["Convolution", "Operand", "read_convolution"]


@dataclass(frozen=True)
class Operand:
    """An operand of a sum.

    Attributes:
        forms: its indices; shape: sizes of its dimensions, negative where not known.
    """

    forms: Sequence[Linear]
    shape: Sequence[int]

    @property
    def strides(self) -> list[int]:
        """Elements between neighbours along each dimension; negative if not known."""
        found: list[int] = []
        step = 1
        for size in reversed(self.shape):
            found.insert(0, step)
            step = step * size if size >= 0 and step >= 0 else -1
        return found

    @property
    def axes(self) -> set[int]:
        """The axes that some index depends on."""
        return {axis for form in self.forms for axis in form.coefficients}

    def step(self, axis: int) -> int:
        """Elements between neighbours along an axis; 0 if all are one.

        Raises:
            Refusal: it is not known, or not one distance.
        """
        total = 0
        for form, stride in zip(self.forms, self.strides, strict=True):
            factor = form.coefficients.get(axis, 0)
            if factor and stride < 0:
                raise Refusal("distances in an operand are open")
            total += factor * stride
        return total

    @property
    def offset(self) -> int:
        """The element that is meant where all axes are 0.

        Raises:
            Refusal: it is not known.
        """
        total = 0
        for form, stride in zip(self.forms, self.strides, strict=True):
            if form.constant and stride < 0:
                raise Refusal("distances in an operand are open")
            total += form.constant * stride
        return total


@dataclass(frozen=True)
class Convolution:
    """A sum that is a convolution.

    Attributes:
        shape: what it computes.
        picture, weights: which of the two factors they are, 0 or 1.
        offsets: elements before the picture, the weights and the result.
        batch: the axis of the pictures, if there is one.
        filters: the axes of a result's channels: that of groups, if there are some, and
            that of filters of a group, if they are more than one.
    """

    shape: ConvolutionShape
    picture: int
    offsets: tuple[int, int, int]
    batch: int | None
    filters: tuple[int, ...]

    @property
    def weights(self) -> int:
        return 1 - self.picture


@dataclass(frozen=True)
class _Window:
    """A dimension of the picture that windows, or pictures, are counted along.

    Attributes:
        size: of the dimension; stride: elements between neighbours.
        outer: the axis of windows; tap: the one within a window, if there is one.
        step, dilation: elements between neighbours along them; start: the first element.
    """

    size: int
    stride: int
    outer: int
    tap: int | None
    step: int
    dilation: int
    start: int

    @property
    def is_plain(self) -> bool:
        """Whether each element of the dimension is read by itself."""
        return self.tap is None and self.step == 1 and self.start == 0


@dataclass(frozen=True)
class _Roles:
    """What axes are, and None where there is no such.

    Attributes:
        batch: of pictures; group, filters: of channels of the result; channels: of those
            of a group in the picture.
        windows: of the picture's other dimensions.
    """

    batch: int | None
    group: int | None
    filters: int | None
    channels: int | None
    windows: tuple[_Window, ...]


def read_convolution(
    kinds: str,
    extents: Sequence[int],
    factors: tuple[Operand, Operand],
    result: Operand,
) -> Convolution:
    """How a sum of products is a convolution that libraries know.

    Args:
        kinds: ``S`` or ``R`` for each axis; extents: sizes, negative where not known.
        factors: what is multiplied; result: where the sums are written.

    Raises:
        Refusal: it is none.
    """
    try:
        return _Reader(kinds, extents, factors, result, 0).read()
    except Refusal as first:
        try:
            return _Reader(kinds, extents, factors, result, 1).read()
        except Refusal:
            raise first from None


class _Reader:
    """Reads a convolution whose picture is one of the factors."""

    def __init__(
        self,
        kinds: str,
        extents: Sequence[int],
        factors: tuple[Operand, Operand],
        result: Operand,
        number: int,
    ) -> None:
        self._kinds, self._extents, self._number = kinds, extents, number
        self._picture, self._weights = factors[number], factors[1 - number]
        self._result = result

    def read(self) -> Convolution:
        """All of it.

        Raises:
            Refusal: it is no convolution of such a picture.
        """
        roles = self._roles()
        shape, offset = self._shape(roles)
        # Of single points both orders are one; then it is that of the pictures.
        first = shape.is_packed(channels_last=True)
        orders = [o for o in (first, not first) if self._lie(roles, last=o)]
        if not orders:
            raise Refusal("its weights lie in an order that no library takes")
        shape = replace(shape, channels_last=orders[0])
        try:
            shape.check()
        except ValueError as error:
            raise Refusal(f"no library computes it: {error}") from None
        axes = (roles.group, roles.filters)
        return Convolution(
            shape,
            self._number,
            (offset, self._weights.offset, self._result.offset),
            roles.batch,
            tuple(axis for axis in axes if axis is not None),
        )

    def _roles(self) -> _Roles:
        windows: list[_Window] = []
        channels: list[Linear] = []
        dimensions = zip(
            *(self._picture.forms, self._picture.shape, self._picture.strides),
            strict=True,
        )
        for form, size, stride in dimensions:
            if min(form.coefficients.values(), default=1) < 1:
                raise Refusal("a picture is read backwards")
            if self._outer(form):
                windows.append(self._window(form, size, stride))
            elif form.coefficients:
                channels.append(form)
        batch = next((w for w in windows if w.is_plain), None)
        windows = [window for window in windows if window is not batch]
        spread = {window.outer for window in windows}
        for operand in (self._picture, self._weights):
            self._check_inside(operand, but=spread)
        outer = None if batch is None else batch.outer
        group, summed = self._channels(channels)
        if group is None and all(window.is_plain for window in windows):
            raise Refusal("it has no windows")
        filters = self._filters(group, outer, [w.outer for w in windows])
        taps = {w.tap for w in windows} - {None}
        reduced = {axis for axis, kind in enumerate(self._kinds) if kind == "R"}
        if reduced != taps | ({summed} - {None}) or not reduced <= self._weights.axes:
            raise Refusal("an axis of the sum is not one of both factors")
        return _Roles(outer, group, filters, summed, tuple(windows))

    def _check_inside(self, operand: Operand, but: set[int]) -> None:
        """Refuse pads of what has none in a convolution.

        Args:
            but: axes of windows, whose dimensions may have some.
        """
        for form, size in zip(operand.forms, operand.shape, strict=True):
            if but.intersection(form.coefficients) or size < 0:
                continue
            ends = ((self._extents[a] - 1) * n for a, n in form.coefficients.items())
            if form.constant < 0 or form.constant + sum(ends) >= size:
                raise Refusal("it pads something else than the axes of its windows")

    def _outer(self, form: Linear) -> list[int]:
        """The axes of the result that the picture alone has."""
        return [
            axis
            for axis in form.coefficients
            if self._kinds[axis] == "S" and axis not in self._weights.axes
        ]

    def _window(self, form: Linear, size: int, stride: int) -> _Window:
        outer = self._outer(form)
        rest = [axis for axis in form.coefficients if axis not in outer]
        is_window = len(outer) == 1 and all(self._kinds[axis] == "R" for axis in rest)
        if not is_window or len(rest) > 1:
            raise Refusal("an index of a picture is no place in a window")
        tap = rest[0] if rest else None
        dilation = 1 if tap is None else form.coefficients[tap]
        step = form.coefficients[outer[0]]
        return _Window(size, stride, outer[0], tap, step, dilation, form.constant)

    def _channels(self, forms: Sequence[Linear]) -> tuple[int | None, int | None]:
        """The axes of groups, and of the channels of one."""
        if len(forms) > 1:
            raise Refusal("a picture has more than one dimension of channels")
        coefficients = forms[0].coefficients if forms else {}
        groups = [axis for axis in coefficients if self._kinds[axis] == "S"]
        summed = [axis for axis in coefficients if self._kinds[axis] == "R"]
        if len(groups) > 1 or len(summed) > 1:
            raise Refusal("an index of a picture is no channel")
        return next(iter(groups), None), next(iter(summed), None)

    def _filters(
        self, group: int | None, batch: int | None, windows: Sequence[int]
    ) -> int | None:
        """The axis of the filters of a group."""
        own = self._weights.axes - self._picture.axes
        filters = [axis for axis in sorted(own) if self._kinds[axis] == "S"]
        known = [
            axis for axis in (group, batch, *windows, *filters) if axis is not None
        ]
        spatial = [axis for axis, kind in enumerate(self._kinds) if kind == "S"]
        if len(filters) > 1 or sorted(known) != spatial:
            raise Refusal(
                "its result has other axes than pictures, filters and windows"
            )
        if not self._result.axes.issuperset(spatial):
            raise Refusal("its result is not indexed by each spatial axis")
        return next(iter(filters), None)

    def _shape(self, roles: _Roles) -> tuple[ConvolutionShape, int]:
        """What is computed, and the first element of the picture."""
        windows, picture, result = roles.windows, self._picture, self._result
        groups, filters, channels = (
            1 if axis is None else self._extents[axis]
            for axis in (roles.group, roles.filters, roles.channels)
        )
        places = [self._place(window) for window in windows]
        forms = [Linear({}, max(0, form.constant)) for form in picture.forms]
        sizes = tuple(size for size, _ in places)
        axes = [w.outer for w in windows]
        counts = tuple(self._extents[axis] for axis in axes)
        read = (
            self._between(picture, roles.group, roles.channels, channels),
            *(w.stride for w in windows),
        )
        written = (
            self._between(result, roles.group, roles.filters, filters),
            *map(result.step, axes),
        )
        channels, filters = groups * channels, groups * filters
        shape = ConvolutionShape(
            channels=channels,
            filters=filters,
            groups=groups,
            picture=sizes,
            window=tuple(self._taps(w) for w in windows),
            result=counts,
            steps=tuple(w.step for w in windows),
            dilations=tuple(w.dilation for w in windows),
            pads=tuple(pad for _, pad in places),
            picture_strides=_strides(picture, roles.batch, (channels, *sizes), read),
            result_strides=_strides(result, roles.batch, (filters, *counts), written),
            channels_last=False,
        )
        return shape, replace(picture, forms=forms).offset

    def _taps(self, window: _Window) -> int:
        return 1 if window.tap is None else self._extents[window.tap]

    def _place(self, window: _Window) -> tuple[int, int]:
        """How much of a picture's size is read, and the zeros at each end.

        Raises:
            Refusal: there are more at one end than at the other.
        """
        count, span = self._extents[window.outer], self._taps(window) - 1
        size, pad = window.size - max(window.start, 0), max(-window.start, 0)
        if min(size, count, span) < 0 or window.stride < 0:
            raise Refusal("sizes of its pictures, or of its windows, are open")
        reach = window.dilation * span
        last = (count - 1) * window.step + reach - pad
        for read in (size, min(size, last + 1)):
            is_covered = read == size or last < read
            if is_covered and (read + 2 * pad - reach - 1) // window.step + 1 == count:
                return read, pad
        raise Refusal("its pictures are not padded alike at both ends")

    def _between(
        self, operand: Operand, group: int | None, axis: int | None, count: int
    ) -> int:
        """Elements from one channel to the next, through all groups.

        Raises:
            Refusal: groups do not follow one another.
        """
        if axis is None:
            return 1 if group is None else operand.step(group)
        step = operand.step(axis)
        if group is not None and operand.step(group) != count * step:
            raise Refusal("groups of channels do not lie one behind the other")
        return step

    def _lie(self, roles: _Roles, *, last: bool) -> bool:
        """Whether the weights lie without gaps, their channels last or before windows."""
        taps = [window.tap for window in roles.windows]
        inner = [*taps, roles.channels] if last else [roles.channels, *taps]
        step = 1
        for axis in reversed([roles.group, roles.filters, *inner]):
            if axis is None or self._extents[axis] == 1:
                continue
            if self._weights.step(axis) != step:
                return False
            step *= self._extents[axis]
        return True


def _strides(
    operand: Operand, batch: int | None, sizes: Sequence[int], strides: Sequence[int]
) -> tuple[int, ...]:
    """Elements from one picture to the next, and those within one."""
    far = span(sizes, strides) if batch is None else operand.step(batch)
    return (far, *strides)
