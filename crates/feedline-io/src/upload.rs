//! Objects written to a store: small ones in one request, large ones in parts that travel while the next are made. A
//! store shows an object only when it is whole.
//!
//! Parts are charged to whoever writes, until they have arrived; where that has little memory they are smaller, and fewer
//! travel at once.

use crate::account::{Account, Scratch, scratch};
use crate::location::Location;
use crate::net::{StoreKey, net, run};
use crate::objects::failed;
use crate::remote::object_path;
use crate::settings::settings;
use crate::write::Sink;
use crate::{Error, Result, Task, bail};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use std::collections::VecDeque;
use std::io::{self, Write};

/// Parts under way at once, where memory allows it.
const PARTS: usize = 4;
/// What stores take as a part that is not the last one.
const LEAST_PART: usize = 5 << 20;

pub(crate) struct Upload {
    name: String,
    key: StoreKey,
    path: Path,
    part_bytes: usize,
    under_way: usize,
    /// What is not sent yet, and what it takes.
    part: Vec<u8>,
    held: Scratch,
    /// Once there is more than one part.
    upload: Option<Box<dyn MultipartUpload>>,
    sent: VecDeque<(Task<Result<()>>, Scratch)>,
    /// It ends with the first failure.
    error: Option<Error>,
}

impl Upload {
    pub(crate) fn new(name: &str, location: &Location<'_>) -> Result<Upload> {
        let (Location::Object { key: path, .. }, Some(key)) = (location, StoreKey::new(location)) else {
            bail!(Internal, "{name} is not in a store")
        };
        if path.is_empty() || path.ends_with('/') {
            bail!(Usage, "{name} is a folder; name the object that is to be written");
        }
        let limit = Account::current().map_or(usize::MAX, |account| account.limit());
        let part_bytes = settings().part_bytes.min((limit / 8).max(LEAST_PART)).max(1);
        Ok(Upload {
            name: name.to_string(),
            path: object_path(name, path)?,
            key,
            part_bytes,
            under_way: (limit / 4 / part_bytes).clamp(1, PARTS),
            part: Vec::new(),
            held: scratch(0),
            upload: None,
            sent: VecDeque::new(),
            error: None,
        })
    }

    /// Sends what there is as a part, when not too many are under way.
    fn send(&mut self) -> Result<()> {
        if self.upload.is_none() {
            let (key, path, name) = (self.key.clone(), self.path.clone(), self.name.clone());
            let begin = run(async move {
                let store = net()?.store(&key, true)?;
                store.put_multipart(&path).await.map_err(|e| failed(&name, "begin to write", &e))
            });
            self.upload = Some(begin.wait()?);
        }
        let upload = self.upload.as_mut().expect("it has begun");
        let payload = PutPayload::from(std::mem::take(&mut self.part));
        let part = upload.put_part(payload);
        let name = self.name.clone();
        let task = run(async move { part.await.map_err(|e| failed(&name, "write a part", &e)) });
        self.sent.push_back((task, std::mem::replace(&mut self.held, scratch(0))));
        while self.sent.len() > self.under_way
            && let Some((part, _held)) = self.sent.pop_front()
        {
            part.wait()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let name = self.name.clone();
        if self.upload.is_none() {
            let (key, path) = (self.key.clone(), self.path.clone());
            let payload = PutPayload::from(std::mem::take(&mut self.part));
            let put = run(async move {
                let store = net()?.store(&key, true)?;
                store.put(&path, payload).await.map_err(|e| failed(&name, "write", &e))
            });
            return put.wait().map(drop);
        }
        if !self.part.is_empty() {
            self.send()?;
        }
        while let Some((part, _held)) = self.sent.pop_front() {
            part.wait()?;
        }
        let Some(mut upload) = self.upload.take() else { return Ok(()) };
        let complete = run(async move {
            match upload.complete().await {
                Ok(_) => Ok(()),
                Err(e) => {
                    let _ = upload.abort().await;
                    Err(failed(&name, "finish to write", &e))
                }
            }
        });
        complete.wait()
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(error) = &self.error {
            return Err(io::Error::other(error.clone()));
        }
        let room = self.part_bytes - self.part.len();
        let bytes = &bytes[..bytes.len().min(room)];
        let before = self.part.capacity();
        self.part.extend_from_slice(bytes);
        if self.part.capacity() != before {
            self.held = scratch(self.part.capacity());
        }
        if self.part.len() == self.part_bytes
            && let Err(error) = self.send()
        {
            self.error = Some(error.clone());
            return Err(io::Error::other(error));
        }
        Ok(bytes.len())
    }
    /// Parts have a least size: nothing is sent early.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Upload {
    fn name(&self) -> &str {
        &self.name
    }
    fn commit(mut self: Box<Self>) -> Result<()> {
        self.finish()
    }
}

impl Drop for Upload {
    /// Parts of an object that was never finished would be kept, and paid for.
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        self.sent.clear();
        let name = self.name.clone();
        let abort =
            run(async move { upload.abort().await.map_err(|e| failed(&name, "take back what was written", &e)) });
        if let Err(error) = abort.wait() {
            log::warn!("{error}");
        }
    }
}
