"""Matching of contractions as convolutions, by the index maps of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape, memory_extent
from relax_mlir.symbolic.intervals import contains

__all__ = ["Convolution", "ConvolutionOperand", "match_convolution"]


@dataclass(frozen=True)
class ConvolutionOperand:
    """An operand or the result of a contraction.

    Attributes:
        forms: index map; shape: sizes of the buffer, negative if dynamic.
    """

    forms: Sequence[AffineForm[int]]
    shape: Sequence[int]

    @property
    def strides(self) -> list[int]:
        """Stride of each dimension in elements; negative if dynamic."""
        strides: list[int] = []
        step = 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step = step * size if size >= 0 and step >= 0 else -1
        return strides

    @property
    def axes(self) -> set[int]:
        """The axes that the index map depends on."""
        return {axis for form in self.forms for axis in form.coefficients}

    def step(self, axis: int) -> int:
        """Stride of an axis in elements; 0 if the operand does not depend on it.

        Raises:
            NotApplicable: the stride is dynamic.
        """
        total = 0
        for form, stride in zip(self.forms, self.strides, strict=True):
            coefficient = form.coefficients.get(axis, 0)
            if coefficient and stride < 0:
                raise NotApplicable("an operand has dynamic strides")
            total += coefficient * stride
        return total

    @property
    def offset(self) -> int:
        """Offset in elements of the origin of all axes.

        Raises:
            NotApplicable: the offset is dynamic.
        """
        total = 0
        for form, stride in zip(self.forms, self.strides, strict=True):
            if form.constant and stride < 0:
                raise NotApplicable("an operand has dynamic strides")
            total += form.constant * stride
        return total


@dataclass(frozen=True)
class Convolution:
    """A contraction matched as a convolution.

    Attributes:
        shape: the convolution of one image.
        image, weights: the operand numbers of the image and the weights, 0 or 1.
        offsets: offsets of image, weights and result in their buffers, in elements.
        batch: the batch axis (N), if any.
        filters: the axes of the output channels: groups and filters per group, without axes
            of size 1.
    """

    shape: ConvolutionShape
    image: int
    offsets: tuple[int, int, int]
    batch: int | None
    filters: tuple[int, ...]

    @property
    def weights(self) -> int:
        return 1 - self.image


@dataclass(frozen=True)
class _SpatialDim:
    """A spatial or batch dimension of the image.

    Attributes:
        size: of the dimension; stride: in memory, in elements.
        outer: the output axis; tap: the kernel axis, if any.
        step, dilation: their coefficients; start: first index, minus the padding.
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
        """Whether the dimension is indexed only by the output axis."""
        return self.tap is None and self.step == 1 and self.start == 0


@dataclass(frozen=True)
class _AxisRoles:
    """Roles of the axes; None for absent ones.

    Attributes:
        batch: images; group: channel groups; filters: output channels per group;
            channels: input channels per group.
        windows: spatial dimensions.
    """

    batch: int | None
    group: int | None
    filters: int | None
    channels: int | None
    windows: tuple[_SpatialDim, ...]


def match_convolution(
    kinds: str,
    extents: Sequence[int],
    operands: tuple[ConvolutionOperand, ConvolutionOperand],
    result: ConvolutionOperand,
) -> Convolution:
    """Match a contraction as a convolution that cuDNN supports.

    Args:
        kinds: ``S`` or ``R`` per axis; extents: sizes, negative if dynamic.
        operands: of the contraction; result: its output.

    Raises:
        NotApplicable: it is not such a convolution.
    """
    try:
        return _Reader(kinds, extents, operands, result, 0).read()
    except NotApplicable as first:
        try:
            return _Reader(kinds, extents, operands, result, 1).read()
        except NotApplicable:
            raise first from None


class _Reader:
    """Matches a convolution with a given operand as the image.

    Args:
        kinds, extents, operands, result: as for :func:`match_convolution`.
        number: of the operand that is the image.
    """

    def __init__(
        self,
        kinds: str,
        extents: Sequence[int],
        operands: tuple[ConvolutionOperand, ConvolutionOperand],
        result: ConvolutionOperand,
        number: int,
    ) -> None:
        self._kinds, self._extents, self._number = kinds, extents, number
        self._image, self._weights = operands[number], operands[1 - number]
        self._result = result

    def read(self) -> Convolution:
        """Match the whole convolution.

        Raises:
            NotApplicable: it does not match.
        """
        roles = self._roles()
        shape, offset = self._shape(roles)
        # The layouts of 1x1 weights coincide; then that of the image decides.
        first = shape.is_packed(channels_last=True)
        layouts = [
            is_last
            for is_last in (first, not first)
            if self._are_weights_packed(roles, channels_last=is_last)
        ]
        if not layouts:
            raise NotApplicable("its weights have a layout that cuDNN does not support")
        shape = replace(shape, channels_last=layouts[0])
        try:
            shape.check()
        except ValueError as error:
            raise NotApplicable(f"cuDNN does not support it: {error}") from None
        axes = (roles.group, roles.filters)
        return Convolution(
            shape,
            self._number,
            (offset, self._weights.offset, self._result.offset),
            roles.batch,
            tuple(axis for axis in axes if axis is not None),
        )

    def _roles(self) -> _AxisRoles:
        windows: list[_SpatialDim] = []
        channels: list[AffineForm[int]] = []
        dimensions = zip(
            *(self._image.forms, self._image.shape, self._image.strides),
            strict=True,
        )
        for form, size, stride in dimensions:
            if min(form.coefficients.values(), default=1) < 1:
                raise NotApplicable("the image is read with a negative stride")
            if self._outer(form):
                windows.append(self._window(form, size, stride))
            elif form.coefficients:
                channels.append(form)
        batch = next((w for w in windows if w.is_plain), None)
        windows = [window for window in windows if window is not batch]
        padded = {window.outer for window in windows}
        for operand in (self._image, self._weights):
            self._check_inside(operand, but=padded)
        outer = None if batch is None else batch.outer
        group, summed = self._channels(channels)
        if group is None and all(window.is_plain for window in windows):
            raise NotApplicable("it has no sliding window")
        filters = self._filters(group, outer, [w.outer for w in windows])
        taps = {w.tap for w in windows} - {None}
        reduced = {axis for axis, kind in enumerate(self._kinds) if kind == "R"}
        if reduced != taps | ({summed} - {None}) or not reduced <= self._weights.axes:
            raise NotApplicable("a reduction axis is not one of both operands")
        return _AxisRoles(outer, group, filters, summed, tuple(windows))

    def _check_inside(self, operand: ConvolutionOperand, but: set[int]) -> None:
        """Check that only spatial dimensions are padded.

        Args:
            but: output axes of the spatial dimensions.
        """
        for form, size in zip(operand.forms, operand.shape, strict=True):
            if but.intersection(form.coefficients) or size < 0:
                continue
            reached = form.range_over(lambda axis: (0, self._extents[axis] - 1))
            if not contains((0, size - 1), reached):
                raise NotApplicable("it pads dimensions other than the spatial ones")

    def _outer(self, form: AffineForm[int]) -> list[int]:
        """The parallel axes of an index that the weights do not have."""
        return [
            axis
            for axis in form.coefficients
            if self._kinds[axis] == "S" and axis not in self._weights.axes
        ]

    def _window(self, form: AffineForm[int], size: int, stride: int) -> _SpatialDim:
        outer = self._outer(form)
        rest = [axis for axis in form.coefficients if axis not in outer]
        is_window = len(outer) == 1 and all(self._kinds[axis] == "R" for axis in rest)
        if not is_window or len(rest) > 1:
            raise NotApplicable("an index of the image is not that of a sliding window")
        tap = rest[0] if rest else None
        dilation = 1 if tap is None else form.coefficients[tap]
        step = form.coefficients[outer[0]]
        return _SpatialDim(size, stride, outer[0], tap, step, dilation, form.constant)

    def _channels(
        self, forms: Sequence[AffineForm[int]]
    ) -> tuple[int | None, int | None]:
        """The axes of groups and of input channels per group."""
        if len(forms) > 1:
            raise NotApplicable("the image has more than one channel dimension")
        coefficients = forms[0].coefficients if forms else {}
        groups = [axis for axis in coefficients if self._kinds[axis] == "S"]
        summed = [axis for axis in coefficients if self._kinds[axis] == "R"]
        if len(groups) > 1 or len(summed) > 1:
            raise NotApplicable("an index of the image is not a channel")
        return next(iter(groups), None), next(iter(summed), None)

    def _filters(
        self, group: int | None, batch: int | None, windows: Sequence[int]
    ) -> int | None:
        """The axis of the output channels per group."""
        own = self._weights.axes - self._image.axes
        filters = [axis for axis in sorted(own) if self._kinds[axis] == "S"]
        known = [
            axis for axis in (group, batch, *windows, *filters) if axis is not None
        ]
        spatial = [axis for axis, kind in enumerate(self._kinds) if kind == "S"]
        if len(filters) > 1 or sorted(known) != spatial:
            raise NotApplicable(
                "its result has axes other than batch, channels and spatial ones"
            )
        if not self._result.axes.issuperset(spatial):
            raise NotApplicable("its result is not indexed by each parallel axis")
        return next(iter(filters), None)

    def _shape(self, roles: _AxisRoles) -> tuple[ConvolutionShape, int]:
        """The convolution of one image, and the offset of the image."""
        windows, image, result = roles.windows, self._image, self._result
        groups, filters, channels = (
            1 if axis is None else self._extents[axis]
            for axis in (roles.group, roles.filters, roles.channels)
        )
        bounds = [self._size_and_padding(window) for window in windows]
        forms = [AffineForm({}, max(0, form.constant)) for form in image.forms]
        sizes = tuple(size for size, _ in bounds)
        axes = [w.outer for w in windows]
        counts = tuple(self._extents[axis] for axis in axes)
        read = (
            self._channel_stride(image, roles.group, roles.channels, channels),
            *(w.stride for w in windows),
        )
        written = (
            self._channel_stride(result, roles.group, roles.filters, filters),
            *map(result.step, axes),
        )
        channels, filters = groups * channels, groups * filters
        shape = ConvolutionShape(
            channels=channels,
            filters=filters,
            groups=groups,
            image=sizes,
            window=tuple(self._taps(w) for w in windows),
            result=counts,
            steps=tuple(w.step for w in windows),
            dilations=tuple(w.dilation for w in windows),
            pads=tuple(pad for _, pad in bounds),
            image_strides=_strides(image, roles.batch, (channels, *sizes), read),
            result_strides=_strides(result, roles.batch, (filters, *counts), written),
            channels_last=False,
        )
        return shape, replace(image, forms=forms).offset

    def _taps(self, window: _SpatialDim) -> int:
        return 1 if window.tap is None else self._extents[window.tap]

    def _size_and_padding(self, window: _SpatialDim) -> tuple[int, int]:
        """The size of the image that is read, and the padding at each end.

        Raises:
            NotApplicable: the padding is asymmetric, or a size is dynamic.
        """
        count, memory_extent = self._extents[window.outer], self._taps(window) - 1
        size, pad = window.size - max(window.start, 0), max(-window.start, 0)
        if min(size, count, memory_extent) < 0 or window.stride < 0:
            raise NotApplicable("its image or its kernel has dynamic sizes")
        reach = window.dilation * memory_extent
        last = (count - 1) * window.step + reach - pad
        for read in (size, min(size, last + 1)):
            is_covered = read == size or last < read
            if is_covered and (read + 2 * pad - reach - 1) // window.step + 1 == count:
                return read, pad
        raise NotApplicable("its padding is asymmetric")

    def _channel_stride(
        self,
        operand: ConvolutionOperand,
        group: int | None,
        axis: int | None,
        count: int,
    ) -> int:
        """Stride between channels, the same within and between groups.

        Raises:
            NotApplicable: groups are not contiguous in channels.
        """
        if axis is None:
            return 1 if group is None else operand.step(group)
        step = operand.step(axis)
        if group is not None and operand.step(group) != count * step:
            raise NotApplicable("its channel groups are not contiguous")
        return step

    def _are_weights_packed(self, roles: _AxisRoles, *, channels_last: bool) -> bool:
        """Whether the weights are contiguous in the order KRSC (channels last) or KCRS."""
        taps = [window.tap for window in roles.windows]
        inner = [*taps, roles.channels] if channels_last else [roles.channels, *taps]
        step = 1
        for axis in reversed([roles.group, roles.filters, *inner]):
            if axis is None or self._extents[axis] == 1:
                continue
            if self._weights.step(axis) != step:
                return False
            step *= self._extents[axis]
        return True


def _strides(
    operand: ConvolutionOperand,
    batch: int | None,
    sizes: Sequence[int],
    strides: Sequence[int],
) -> tuple[int, ...]:
    """Strides of the batch dimension and of the others, in elements."""
    batch_stride = (
        memory_extent(sizes, strides) if batch is None else operand.step(batch)
    )
    return (batch_stride, *strides)
