//! From bytes to pixels and back.

use super::super::super::{Attrs, ByRow, Func, Made, arity, dense};
use super::super::lead::{check_integers, integers};
use crate::element::{DType, Dims, Leaf, Shape, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::codec::{Format, Opened, jpeg, png};
use feedline_image::geometry::Rect;
use feedline_image::{Size, orient};

pub static FUNCS: &[Func] = &[
    Func {
        name: "image.decode",
        doc: "The pixels of a JPEG, PNG, GIF, BMP or WebP; its bytes say which.",
        make: make_decode,
        pure: true,
    },
    Func {
        name: "image.decoded_shape",
        doc: "The shape that `image.decode` of the same bytes has, mostly from the header alone.",
        make: make_decoded_shape,
        pure: true,
    },
    Func {
        name: "image.decode_and_crop_jpeg",
        doc: "A part of a JPEG, given as [y, x, height, width]; only what it needs is decoded.",
        make: make_decode_and_crop,
        pure: true,
    },
    Func {
        name: "image.extract_jpeg_shape",
        doc: "Height, width and channels of a JPEG, from its header.",
        make: make_jpeg_shape,
        pure: true,
    },
    Func { name: "image.is_jpeg", doc: "Whether bytes begin as a JPEG does.", make: make_is_jpeg, pure: true },
    Func { name: "image.encode_jpeg", doc: "A grey or RGB picture as a JPEG.", make: make_encode_jpeg, pure: true },
    Func { name: "image.encode_png", doc: "A picture as a PNG.", make: make_encode_png, pure: true },
];

/// Bytes of one file: what codecs read.
fn contents(args: &[Value]) -> Result<&[u8]> {
    let t = args[0].tensor();
    if t.rank() != 0 {
        return Err(Error::data(format!("expects the bytes of one picture, not strings of shape {:?}", t.shape())));
    }
    Ok(t.str_at(0))
}

fn check_contents(args: &[Leaf]) -> Result<()> {
    match dense(args, 0)? {
        (DType::String, shape) if shape.rank().is_none_or(|rank| rank == 0) => Ok(()),
        (DType::String, shape) => Err(Error::usage(format!(
            "expects the bytes of one picture, not strings of shape {shape}; map it before batch"
        ))),
        (dtype, _) => Err(Error::usage(format!("expects the bytes of a picture as a string, not {dtype}"))),
    }
}

/// What a decoder of JPEG is told.
pub fn jpeg_options(attrs: &Attrs) -> Result<jpeg::Options> {
    let channels = match attrs.i64("channels")?.unwrap_or(0) {
        n @ 0..=4 => n as usize,
        n => return Err(Error::usage(format!("channels must be 0 to 4, not {n}"))),
    };
    let ratio = match attrs.i64("ratio")?.unwrap_or(1) {
        n @ (1 | 2 | 4 | 8) => n as usize,
        n => return Err(Error::usage(format!("ratio must be 1, 2, 4 or 8, not {n}"))),
    };
    let accurate = match attrs.str("dct_method")?.unwrap_or("") {
        "" | "INTEGER_FAST" => false,
        "INTEGER_ACCURATE" => true,
        other => {
            return Err(Error::usage(format!(
                "dct_method must be \"\", \"INTEGER_FAST\" or \"INTEGER_ACCURATE\", not {other:?}"
            )));
        }
    };
    Ok(jpeg::Options {
        channels,
        ratio,
        fancy_upscaling: attrs.bool("fancy_upscaling")?.unwrap_or(true),
        recover: attrs.bool("try_recover_truncated")?.unwrap_or(false),
        accurate,
    })
}

/// Whether there is an axis of frames.
#[derive(Clone, Copy, PartialEq)]
enum Frames {
    First,
    All,
    /// As the format has them: GIF and WebP do.
    ByFormat,
}

/// `image.decode`: what it gives.
#[derive(Clone, Copy)]
struct Decode {
    options: jpeg::Options,
    frames: Frames,
    dtype: DType,
    /// Turned as EXIF says.
    upright: bool,
}

impl Decode {
    fn of(attrs: &Attrs) -> Result<Decode> {
        let frames = match attrs.str("frames")?.unwrap_or("first") {
            "first" => Frames::First,
            "all" => Frames::All,
            "by_format" => Frames::ByFormat,
            other => return Err(Error::usage(format!("frames must be first, all or by_format, not {other:?}"))),
        };
        let dtype = match attrs.dtype("dtype")?.unwrap_or(DType::Uint8) {
            d @ (DType::Uint8 | DType::Uint16 | DType::Float32) => d,
            d => return Err(Error::usage(format!("pictures are decoded to uint8, uint16 or float32, not {d}"))),
        };
        let upright = attrs.bool("exif_orientation")?.unwrap_or(false);
        Ok(Decode { options: jpeg_options(attrs)?, frames, dtype, upright })
    }
    fn dims(&self) -> Dims {
        let channels = (self.options.channels > 0).then_some(self.options.channels);
        match self.frames {
            Frames::First => Dims::of([None, None, channels]),
            Frames::All => Dims::of([None, None, None, channels]),
            Frames::ByFormat => Dims::unknown(),
        }
    }
    /// The orientation that counts.
    fn orientation(&self, bytes: &[u8], format: Format) -> Result<u8> {
        Ok(if self.upright && format == Format::Jpeg { jpeg::Header::read(bytes)?.orientation } else { 1 })
    }
    fn shape(&self, opened: &Opened, orientation: u8) -> Shape {
        let Size { height, width, channels } = orient::turned(opened.size, orientation);
        let frames = match self.frames {
            Frames::First => None,
            Frames::All => Some(opened.frames),
            Frames::ByFormat => opened.format.is_animated().then_some(opened.frames),
        };
        frames.into_iter().chain([height, width, channels]).collect()
    }
    fn run(&self, bytes: &[u8]) -> Result<Tensor> {
        let opened = Opened::new(bytes, self.options)?;
        let orientation = self.orientation(bytes, opened.format)?;
        let (size, shape) = (opened.size, self.shape(&opened, orientation));
        crate::element::check_room(self.dtype, &shape)?;
        let mut out = Tensor::new(self.dtype, shape);
        match self.dtype {
            DType::Uint8 if orientation == 1 => opened.read(out.bytes_mut())?,
            DType::Uint8 => {
                let mut lying = Tensor::new(DType::Uint8, [size.items()]);
                opened.read(lying.bytes_mut())?;
                orient::turn(lying.bytes(), size, orientation, out.bytes_mut());
            }
            _ => {
                let mut wide = Tensor::new(DType::Uint16, [out.len()]);
                opened.read_wide(wide.items_mut::<u16>())?;
                if orientation != 1 {
                    let lying = std::mem::replace(&mut wide, Tensor::new(DType::Uint16, [out.len()]));
                    orient::turn(lying.items::<u16>(), size, orientation, wide.items_mut::<u16>());
                }
                let wide = wide.items::<u16>();
                match self.dtype {
                    DType::Uint16 => out.items_mut::<u16>().copy_from_slice(wide),
                    _ => out.items_mut::<f32>().iter_mut().zip(wide).for_each(|(o, x)| *o = f32::from(*x) / 65535.0),
                }
            }
        }
        Ok(out)
    }
}

fn make_decode(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    check_contents(args)?;
    let decode = Decode::of(attrs)?;
    let kernel = ByRow(move |args: &[Value]| decode.run(contents(args)?).map(Value::Tensor));
    Made::new(Leaf::tensor(decode.dtype, decode.dims()), kernel)
}

fn make_decoded_shape(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    check_contents(args)?;
    let decode = Decode::of(attrs)?;
    let dtype = attrs.dtype("out_type")?.unwrap_or(DType::Int32);
    let kernel = ByRow(move |args: &[Value]| {
        let bytes = contents(args)?;
        let opened = Opened::new(bytes, decode.options)?;
        let shape = decode.shape(&opened, decode.orientation(bytes, opened.format)?);
        let sizes: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
        super::super::cast::cast(Tensor::from_items([sizes.len()], &sizes), dtype).map(Value::Tensor)
    });
    Made::new(Leaf::tensor(dtype, Dims::of([decode.dims().rank()])), kernel)
}

/// A box as [y, x, height, width], which must lie in a picture of `size`.
pub fn rect(values: &[i64], size: Size) -> Result<Rect> {
    let inside = || {
        let [y, x, height, width] =
            <[usize; 4]>::try_from(values.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>()?)
                .ok()?;
        Some(Rect { y, x, height, width }).filter(|r| r.fits(size))
    };
    inside().ok_or_else(|| {
        Error::data(format!(
            "the part {values:?} ([y, x, height, width]) does not lie in a picture of {} x {}, or is empty",
            size.height, size.width
        ))
    })
}

fn make_decode_and_crop(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    check_contents(args)?;
    check_integers("crop_window", dense(args, 1)?.0)?;
    let options = jpeg_options(attrs)?;
    let kernel = ByRow(move |args: &[Value]| {
        let job = jpeg::Job::new(contents(args)?, options)?;
        let rect = rect(&integers(args[1].tensor())?, job.size)?;
        let channels = job.size.channels;
        let mut out = Tensor::new(DType::Uint8, [rect.height, rect.width, channels]);
        let window = job.decode_window(rect)?;
        let row_bytes = rect.width * channels;
        for (from, to) in window.items().chunks(window.stride).zip(out.bytes_mut().chunks_exact_mut(row_bytes)) {
            to.copy_from_slice(&from[..row_bytes]);
        }
        Ok(Value::Tensor(out))
    });
    let channels = (options.channels > 0).then_some(options.channels);
    Made::new(Leaf::tensor(DType::Uint8, Dims::of([None, None, channels])), kernel)
}

fn make_jpeg_shape(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    check_contents(args)?;
    let dtype = match attrs.dtype("output_type")?.unwrap_or(DType::Int32) {
        d @ (DType::Int32 | DType::Int64) => d,
        d => return Err(Error::usage(format!("output_type must be int32 or int64, not {d}"))),
    };
    let kernel = ByRow(move |args: &[Value]| {
        let header = jpeg::Header::read(contents(args)?)?;
        let sizes = [header.height, header.width, header.components].map(|n| n as i64);
        super::super::cast::cast(Tensor::from_items([3], &sizes), dtype).map(Value::Tensor)
    });
    Made::new(Leaf::tensor(dtype, Dims::of([Some(3)])), kernel)
}

fn make_is_jpeg(args: &[Leaf], _attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    check_contents(args)?;
    let kernel = ByRow(|args: &[Value]| {
        let is = contents(args)?.starts_with(&[0xff, 0xd8, 0xff]);
        Ok(Value::Tensor(Tensor::scalar(crate::element::B8::from(is))))
    });
    Made::new(Leaf::scalar(DType::Bool), kernel)
}

/// Height, width and channels of a picture of rank 3.
pub fn size_of(t: &Tensor) -> Result<Size> {
    match *t.shape() {
        [height, width, channels] => Ok(Size { height, width, channels }),
        ref shape => {
            Err(Error::data(format!("expects a picture of [height, width, channels], not of shape {shape:?}")))
        }
    }
}

fn make_encode_jpeg(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    // The quality may be an argument, to be drawn for each picture.
    if args.len() == 2 {
        check_integers("quality", dense(args, 1)?.0)?;
    } else {
        arity::<1>(args)?;
    }
    match dense(args, 0)? {
        (DType::Uint8, shape) if shape.rank().is_none_or(|rank| rank == 3) => {}
        (dtype, shape) => {
            return Err(Error::usage(format!("expects a uint8 picture of 3 axes, not {dtype} of shape {shape}")));
        }
    }
    let quality = match attrs.i64("quality")?.unwrap_or(95) {
        n @ 0..=100 => n as u8,
        n => return Err(Error::usage(format!("quality must be 0 to 100, not {n}"))),
    };
    let channels = match attrs.str("format")?.unwrap_or("") {
        "" => None,
        "grayscale" => Some(1),
        "rgb" => Some(3),
        other => return Err(Error::usage(format!("format must be \"\", \"grayscale\" or \"rgb\", not {other:?}"))),
    };
    let how = jpeg::Encoding {
        quality,
        progressive: attrs.bool("progressive")?.unwrap_or(false),
        optimize: attrs.bool("optimize_size")?.unwrap_or(false),
        chroma_downsampling: attrs.bool("chroma_downsampling")?.unwrap_or(true),
    };
    let kernel = ByRow(move |args: &[Value]| {
        let picture = args[0].tensor();
        let size = size_of(picture)?;
        if channels.is_some_and(|n| n != size.channels) {
            return Err(Error::data(format!("a picture of {} channels is not of the format asked for", size.channels)));
        }
        let quality = match args.get(1).map(|quality| integers(quality.tensor())).transpose()?.as_deref() {
            None => how.quality,
            Some([n @ 0..=100]) => *n as u8,
            Some(other) => return Err(Error::data(format!("quality must be 0 to 100, not {other:?}"))),
        };
        let how = jpeg::Encoding { quality, ..how };
        jpeg::encode(picture.bytes(), size, how).map(|bytes| Value::Tensor(Tensor::string(&bytes)))
    });
    Made::new(Leaf::scalar(DType::String), kernel)
}

fn make_encode_png(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let wide = match dense(args, 0)? {
        (DType::Uint8, shape) if shape.rank().is_none_or(|rank| rank == 3) => false,
        (DType::Uint16, shape) if shape.rank().is_none_or(|rank| rank == 3) => true,
        (dtype, shape) => {
            return Err(Error::usage(format!(
                "expects a picture of 3 axes as uint8 or uint16, not {dtype} of shape {shape}"
            )));
        }
    };
    let compression = match attrs.i64("compression")?.unwrap_or(-1) {
        n @ -1..=9 => n,
        n => return Err(Error::usage(format!("compression must be -1 to 9, not {n}"))),
    };
    let kernel = ByRow(move |args: &[Value]| {
        let picture = args[0].tensor();
        let size = size_of(picture)?;
        let bytes = if wide {
            let big: Vec<u8> = picture.items::<u16>().iter().flat_map(|x| x.to_be_bytes()).collect();
            png::encode(&big, size, true, compression)
        } else {
            png::encode(picture.bytes(), size, false, compression)
        };
        bytes.map(|bytes| Value::Tensor(Tensor::string(&bytes)))
    });
    Made::new(Leaf::scalar(DType::String), kernel)
}
