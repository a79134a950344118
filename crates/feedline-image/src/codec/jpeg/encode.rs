//! Pixels to JPEG: by libjpeg-turbo, or by jpeg-encoder where it cannot be built.

use crate::{Error, Result, Size};

/// How a JPEG is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// 0 to 100.
    pub quality: u8,
    pub progressive: bool,
    /// Smaller files for more work.
    pub optimize: bool,
    /// Chroma at half the resolution each way.
    pub chroma_downsampling: bool,
}

impl Default for Encoding {
    fn default() -> Encoding {
        Encoding { quality: 95, progressive: false, optimize: false, chroma_downsampling: true }
    }
}

/// Grey or RGB pixels as a JPEG.
pub fn encode(pixels: &[u8], size: Size, how: Encoding) -> Result<Vec<u8>> {
    let Size { height, width, channels } = size;
    if pixels.len() != size.items() {
        return Err(Error::internal("a picture of another size than its pixels"));
    }
    if !matches!(channels, 1 | 3) {
        return Err(Error::data(format!("a JPEG has 1 or 3 channels, not {channels}")));
    }
    if height == 0 || width == 0 || height.max(width) > 65500 {
        return Err(Error::data(format!("a JPEG has 1 to 65500 pixels a side, not {height} x {width}")));
    }
    write(pixels, size, how)
}

#[cfg(feature = "turbo")]
fn write(pixels: &[u8], size: Size, how: Encoding) -> Result<Vec<u8>> {
    use std::ffi::{CStr, c_int};
    use turbojpeg_sys as tj;

    struct Handle(tj::tjhandle, *mut u8);
    impl Drop for Handle {
        fn drop(&mut self) {
            // SAFETY: both are the library's own and are not used again; both may be null.
            unsafe {
                tj::tj3Free(self.1.cast());
                tj::tj3Destroy(self.0);
            }
        }
    }
    let sampling = match (size.channels, how.chroma_downsampling) {
        (1, _) => tj::TJSAMP_TJSAMP_GRAY,
        (_, true) => tj::TJSAMP_TJSAMP_420,
        (_, false) => tj::TJSAMP_TJSAMP_444,
    };
    let params = [
        // The library's scale begins at 1.
        (tj::TJPARAM_TJPARAM_QUALITY, c_int::from(how.quality.max(1))),
        (tj::TJPARAM_TJPARAM_SUBSAMP, sampling),
        (tj::TJPARAM_TJPARAM_PROGRESSIVE, how.progressive.into()),
        (tj::TJPARAM_TJPARAM_OPTIMIZE, how.optimize.into()),
    ];
    let format = if size.channels == 1 { tj::TJPF_TJPF_GRAY } else { tj::TJPF_TJPF_RGB };
    // SAFETY: a plain constructor; null if it fails.
    let mut handle = Handle(unsafe { tj::tj3Init(tj::TJINIT_TJINIT_COMPRESS as c_int) }, std::ptr::null_mut());
    if handle.0.is_null() {
        return Err(Error::internal("libjpeg-turbo could not be started: there is no memory"));
    }
    let mut len = 0;
    // SAFETY: the handle is a live instance; `pixels` are `height` rows of `stride` bytes, as `encode` has checked; the
    // library allocates what it writes and says how much that is.
    let failed = unsafe {
        params.iter().any(|&(param, value)| tj::tj3Set(handle.0, param as c_int, value) != 0)
            || tj::tj3Compress8(
                handle.0,
                pixels.as_ptr(),
                size.width as c_int,
                size.stride() as c_int,
                size.height as c_int,
                format,
                &mut handle.1,
                &mut len,
            ) != 0
    };
    if failed {
        // SAFETY: the library returns a string that lives as long as the handle.
        let text = unsafe { CStr::from_ptr(tj::tj3GetErrorStr(handle.0)) };
        return Err(Error::data(format!("the picture could not be written as a JPEG: {}", text.to_string_lossy())));
    }
    // SAFETY: the library wrote `len` bytes there.
    Ok(unsafe { std::slice::from_raw_parts(handle.1, len as usize) }.to_vec())
}

#[cfg(not(feature = "turbo"))]
fn write(pixels: &[u8], size: Size, how: Encoding) -> Result<Vec<u8>> {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, how.quality.max(1));
    encoder.set_progressive(how.progressive);
    encoder.set_optimized_huffman_tables(how.optimize);
    encoder.set_sampling_factor(if how.chroma_downsampling { SamplingFactor::F_2_2 } else { SamplingFactor::F_1_1 });
    let kind = if size.channels == 1 { ColorType::Luma } else { ColorType::Rgb };
    encoder
        .encode(pixels, size.width as u16, size.height as u16, kind)
        .map_err(|e| Error::data(format!("the picture could not be written as a JPEG: {e}")))?;
    Ok(out)
}
