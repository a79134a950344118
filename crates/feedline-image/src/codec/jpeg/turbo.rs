//! libjpeg-turbo through its TurboJPEG interface, which catches its errors on the C side.

use super::{Decoder, Job, Window, cmyk_to_rgb, filled};
use crate::geometry::Rect;
use crate::{Error, Result};
use std::ffi::{CStr, c_int};
use turbojpeg_sys as tj;

/// A progressive file has a scan for each of its refinements; more than this is an attack on our time.
const MOST_SCANS: c_int = 500;

/// An instance of the library with its memory; made when it is first used.
pub struct Turbo(tj::tjhandle);

impl Default for Turbo {
    fn default() -> Turbo {
        // SAFETY: a plain constructor; it returns null if it fails, which `decode` looks for.
        Turbo(unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) })
    }
}

impl Drop for Turbo {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, is not used again, and may be null.
        unsafe { tj::tj3Destroy(self.0) }
    }
}

/// The part of a picture that is decoded.
#[derive(Clone, Copy)]
struct Region {
    y: usize,
    x: usize,
    height: usize,
    width: usize,
}

impl Turbo {
    fn error(&self) -> Error {
        // SAFETY: the library returns a string that lives as long as the handle, or a static one.
        let text = unsafe { CStr::from_ptr(tj::tj3GetErrorStr(self.0)) };
        Error::data(format!("a broken JPEG: {}", text.to_string_lossy()))
    }
    fn set(&mut self, param: tj::TJPARAM, value: c_int) -> Result<()> {
        // SAFETY: the handle is a live instance.
        match unsafe { tj::tj3Set(self.0, param as c_int, value) } {
            0 => Ok(()),
            _ => Err(self.error()),
        }
    }
    /// Decodes a region (None: all) as it comes, with the channels of `format`.
    fn run(&mut self, job: &Job, region: Option<Region>, format: tj::TJPF, out: &mut [u8]) -> Result<()> {
        if self.0.is_null() {
            return Err(Error::internal("libjpeg-turbo could not be started: there is no memory"));
        }
        let channels = match format {
            tj::TJPF_TJPF_GRAY => 1,
            tj::TJPF_TJPF_CMYK => 4,
            _ => 3,
        };
        let (height, width) = region.map_or((job.size.height, job.size.width), |r| (r.height, r.width));
        // The library writes this much, whatever the file says later: it keeps to the header that we read too.
        assert_eq!(out.len(), height * width * channels);
        self.set(tj::TJPARAM_TJPARAM_SCANLIMIT, MOST_SCANS)?;
        self.set(tj::TJPARAM_TJPARAM_FASTUPSAMPLE, (!job.options.fancy_upscaling).into())?;
        self.set(tj::TJPARAM_TJPARAM_FASTDCT, (!job.options.accurate).into())?;
        let (data, len) = (job.bytes.as_ptr(), job.bytes.len() as _);
        // SAFETY: `data` are `len` readable bytes.
        if unsafe { tj::tj3DecompressHeader(self.0, data, len) } != 0 && self.is_fatal() {
            return Err(self.error());
        }
        // SAFETY: the handle is a live instance.
        let [w, h] = [tj::TJPARAM_TJPARAM_JPEGWIDTH, tj::TJPARAM_TJPARAM_JPEGHEIGHT]
            .map(|param| unsafe { tj::tj3Get(self.0, param as c_int) } as usize);
        if (h, w) != (job.header.height, job.header.width) {
            return Err(Error::data("a broken JPEG: it has two headers of different sizes"));
        }
        let scale = tj::tjscalingfactor { num: 1, denom: job.options.ratio as c_int };
        let crop = region.map_or([0; 4], |r| [r.x, r.y, r.width, r.height].map(|n| n as c_int));
        let crop = tj::tjregion { x: crop[0], y: crop[1], w: crop[2], h: crop[3] };
        // SAFETY: the handle is a live instance that has read a header; both check their arguments.
        if unsafe { tj::tj3SetScalingFactor(self.0, scale) != 0 || tj::tj3SetCroppingRegion(self.0, crop) != 0 } {
            return Err(self.error());
        }
        let pitch = (width * channels) as c_int;
        // SAFETY: `data` are `len` readable bytes; `out` has room for `height` rows of `pitch` bytes, as asserted, and
        // the library writes the size of the region, or of the scaled picture, that was checked above.
        let failed = unsafe { tj::tj3Decompress8(self.0, data, len, out.as_mut_ptr(), pitch, format) } != 0;
        // A warning is about image data that is odd: pixels are there, and peers show them.
        if failed && self.is_fatal() { Err(self.error()) } else { Ok(()) }
    }
    fn is_fatal(&self) -> bool {
        // SAFETY: the handle is a live instance.
        unsafe { tj::tj3GetErrorCode(self.0) != tj::TJERR_TJERR_WARNING as c_int }
    }
}

impl Decoder for Turbo {
    fn decode(&mut self, job: &Job, out: &mut [u8]) -> Result<()> {
        if job.header.components == 4 {
            let bytes = job.size.height * job.size.width * 4;
            let cmyk = filled(bytes, |out| self.run(job, None, tj::TJPF_TJPF_CMYK, out))?;
            cmyk_to_rgb(cmyk.as_slice(), job.header.adobe, out);
            return Ok(());
        }
        let format = if job.size.channels == 1 { tj::TJPF_TJPF_GRAY } else { tj::TJPF_TJPF_RGB };
        self.run(job, None, format, out)
    }

    /// Only the blocks that the window touches are transformed, and nothing behind its last row is even read. Where
    /// chroma is interpolated a pixel depends on its neighbours, so the window is widened first.
    fn decode_window(&mut self, job: &Job, rect: Rect) -> Result<Window> {
        let (across, down) = job.header.sampling;
        let plain = job.header.components != 4 && job.options.ratio == 1 && job.header.has_blocks();
        if !plain {
            let block = filled(job.size.items(), |out| self.decode(job, out))?;
            let stride = job.size.stride();
            return Ok(Window { block, offset: rect.y * stride + rect.x * job.size.channels, stride });
        }
        let margin = match (job.header.subsampled, across.max(down)) {
            (false, _) => 0,
            (true, 1 | 2) => 2,
            (true, _) => 8,
        };
        let block = across * 8;
        let x = rect.x.saturating_sub(margin) / block * block;
        let y = rect.y.saturating_sub(margin);
        let width = (rect.x + rect.width + margin).min(job.size.width) - x;
        let height = (rect.y + rect.height + margin).min(job.size.height) - y;
        let channels = job.size.channels;
        let format = if channels == 1 { tj::TJPF_TJPF_GRAY } else { tj::TJPF_TJPF_RGB };
        let region = Some(Region { y, x, height, width });
        let block = filled(height * width * channels, |out| self.run(job, region, format, out))?;
        let stride = width * channels;
        Ok(Window { block, offset: (rect.y - y) * stride + (rect.x - x) * channels, stride })
    }
}
