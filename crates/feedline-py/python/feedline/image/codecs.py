"""From bytes to pixels and back."""

from __future__ import annotations

from typing import Any

from ..calls import as_tensor, call, symbolic
from ..dtypes import as_dtype, int32, uint8

__all__ = [
    "adjust_jpeg_quality",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "is_jpeg",
]


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
    *,
    exif_orientation: bool = False,
    scaled: bool = False,
) -> Any:
    """The pixels of a JPEG: uint8, height x width x channels.

    >>> import feedline as fl, numpy as np
    >>> jpeg = fl.image.encode_jpeg(np.full((4, 6, 3), 128, np.uint8))
    >>> fl.image.decode_jpeg(jpeg).shape
    (4, 6, 3)

    Args:
        contents: The bytes of the file. Other formats are recognised too; of an animation the first frame
            counts.
        channels: 1 (grey), 3 (RGB), or 0 for as many as the file has.
        ratio: 1, 2, 4 or 8: each side becomes that many times shorter, by a cheaper decoding.
        fancy_upscaling: Chroma is interpolated, not repeated.
        try_recover_truncated: A file that was cut off is decoded as far as it goes; else it is an error.
        acceptable_fraction: Not used: what is missing is filled, as TensorFlow fills it.
        dct_method: "INTEGER_ACCURATE", or "INTEGER_FAST", which is the default and may be off by a level or
            two.
        name: Not used.
        exif_orientation: Turns the picture upright as its EXIF data say. TensorFlow leaves it as it is
            stored.
        scaled: In a mapped function, a picture that is at least halved by a later `resize` may be decoded at
            a
            half, a fourth or an eighth of its size, which is faster and changes pixels a little.
    """
    return call(
        "image.decode",
        [as_tensor(contents)],
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated or None,
        dct_method=dct_method or None,
        exif_orientation=exif_orientation or None,
        scaled=scaled or None,
    )


def decode_png(contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None) -> Any:
    """The pixels of a PNG, as uint8 or uint16, height x width x channels.

    >>> import feedline as fl, numpy as np
    >>> png = fl.image.encode_png(np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    >>> fl.image.decode_png(png).reshape(-1).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]

    Args:
        contents: The bytes of the file; other formats are recognised too.
        channels: 1 to 4, or 0 for as many as the file has. Alpha is dropped, or added as opaque.
        dtype: uint8 or uint16.
        name: Not used.
    """
    return call("image.decode", [as_tensor(contents)], channels=channels, dtype=as_dtype(dtype))


def decode_gif(contents: Any, name: str | None = None) -> Any:
    """The frames of a GIF: uint8, frames x height x width x 3."""
    return call("image.decode", [as_tensor(contents)], channels=3, frames="all")


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Any:
    """The pixels of a BMP: uint8, height x width x channels. `channels` must be what the file has, or 0."""
    return call("image.decode", [as_tensor(contents)], channels=channels)


def decode_webp(contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None) -> Any:
    """The frames of a WebP: frames x height x width x channels; a still has one frame."""
    return call("image.decode", [as_tensor(contents)], channels=channels, dtype=as_dtype(dtype), frames="all")


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """The pixels of a picture of any known format.

    Args:
        contents: The bytes of a JPEG, PNG, GIF, BMP or WebP.
        channels: 1, 3 or 4, or 0 for as many as the file has.
        dtype: uint8, uint16, or float32 for values from 0 to 1.
        name: Not used.
        expand_animations: GIF and WebP get an axis of frames in front; the shape is then not known before a
            file is
            read. False gives the first frame, and a shape of 3 axes.
    """
    return call(
        "image.decode",
        [as_tensor(contents)],
        channels=channels or 0,
        dtype=as_dtype(dtype),
        frames="by_format" if expand_animations else "first",
    )


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """A part of a JPEG, `[y, x, height, width]`: what the whole has there, with only that decoded.

    Cropping the result of `decode_jpeg` inside a mapped function does the same.
    """
    return call(
        "image.decode_and_crop_jpeg",
        [as_tensor(contents), as_tensor(crop_window, int32)],
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated or None,
        dct_method=dct_method or None,
    )


def extract_jpeg_shape(contents: Any, output_type: Any = int32, name: str | None = None) -> Any:
    """Height, width and channels of a JPEG, from its header."""
    return call("image.extract_jpeg_shape", [as_tensor(contents)], output_type=as_dtype(output_type))


def is_jpeg(contents: Any, name: str | None = None) -> Any:
    """Whether bytes begin as those of a JPEG do."""
    return call("image.is_jpeg", [as_tensor(contents)])


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: Any = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Any:
    """A uint8 picture of 1 or 3 channels as the bytes of a JPEG.

    Args:
        image: Height x width x channels.
        format: "grayscale", "rgb", or "" for what the picture has.
        quality: 0 to 100; in a mapped function it may be symbolic.
        progressive: A file that shows a coarse picture first.
        optimize_size: A smaller file for more work.
        chroma_downsampling: Half the resolution for color, as usual.
        density_unit: Not used, like the densities and the metadata.
        x_density: Not used.
        y_density: Not used.
        xmp_metadata: Not used.
        name: Not used.
    """
    drawn = symbolic(quality)
    return call(
        "image.encode_jpeg",
        [image, quality] if drawn else [image],
        format=format or None,
        quality=None if drawn else quality,
        progressive=progressive or None,
        optimize_size=optimize_size or None,
        chroma_downsampling=chroma_downsampling,
    )


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Any:
    """A uint8 or uint16 picture of 1 to 4 channels as the bytes of a PNG; compression from 0 to 9, -1 is the
    usual.
    """
    return call("image.encode_png", [image], compression=compression)


def adjust_jpeg_quality(image: Any, jpeg_quality: Any, name: str | None = None) -> Any:
    """What a picture looks like after it was stored as a JPEG of that quality."""
    return decode_jpeg(encode_jpeg(image, quality=jpeg_quality))
