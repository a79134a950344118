//! The keys of a bucket as files in folders.

use crate::list::{Child, Is, Tree};
use crate::location::Location;
use crate::net::{StoreKey, chain, excuse, net, run};
use crate::remote::object_path;
use crate::{Error, Kind, Result, bail};
use object_store::ListResult;
use object_store::path::Path;
use std::sync::Arc;

pub(crate) struct Objects {
    /// `s3://bucket/`, for errors.
    root: String,
    key: StoreKey,
}

impl Objects {
    pub(crate) fn new(name: &str, location: &Location<'_>) -> Result<Objects> {
        let (Location::Object { scheme, bucket, .. }, Some(key)) = (location, StoreKey::new(location)) else {
            bail!(Internal, "{name} is not in a store")
        };
        Ok(Objects { root: format!("{scheme}://{bucket}/"), key })
    }

    fn list(&self, folder: &[u8]) -> Result<ListResult> {
        let text = String::from_utf8_lossy(folder).into_owned();
        let name = format!("{}{text}", self.root);
        let path = object_path(&name, &text)?;
        let key = self.key.clone();
        run(async move {
            let store = net()?.store(&key, true)?;
            let prefix = (path != Path::ROOT).then_some(&path);
            store.list_with_delimiter(prefix).await.map_err(|e| failed(&name, "list", &e))
        })
        .wait()
    }
}

/// What a store said, without whole pages of it.
pub(crate) fn failed(name: &str, what: &str, error: &object_store::Error) -> Error {
    let mut text = chain(error);
    if let Some(at) = text.find("<?xml").or_else(|| text.find("<Error")) {
        text = format!("{}{}", &text[..at], excuse(&text.as_bytes()[at..]));
    }
    if let Some((end, _)) = text.char_indices().nth(600) {
        text.truncate(end);
        text.push_str("...");
    }
    Error::new(Kind::Io, format!("{what}: {text}")).in_file(name, None)
}

impl Tree for Objects {
    fn children(&self, folder: &[u8]) -> Result<Vec<Child>> {
        let ListResult { common_prefixes, objects, .. } = self.list(folder)?;
        let folders = common_prefixes.iter().map(|path| (path, Is::Folder));
        let files = objects.iter().map(|object| (&object.location, Is::File));
        let children = folders.chain(files).filter_map(|(path, is)| {
            let name = path.filename()?.as_bytes().to_vec();
            Some(Child { name, is })
        });
        Ok(children.collect())
    }

    fn kind(&self, path: &[u8]) -> Result<Option<Is>> {
        let text = String::from_utf8_lossy(path).into_owned();
        if !text.is_empty() && !text.ends_with('/') {
            let name = format!("{}{text}", self.root);
            let location = crate::location::locate(&name)?;
            if Arc::new(crate::Remote::new(&name, &location)?).exists().wait()? {
                return Ok(Some(Is::File));
            }
        }
        // There are no folders, only keys that begin alike.
        let ListResult { common_prefixes, objects, .. } = self.list(path)?;
        Ok((!common_prefixes.is_empty() || !objects.is_empty()).then_some(Is::Folder))
    }
}
