//! What a name says about where its bytes lie.

use crate::{Result, bail};

/// A name taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Location<'a> {
    /// The path of a file of this machine.
    Local(&'a str),
    /// The whole URL. Nothing in it is a pattern: `?` begins a query.
    #[cfg(feature = "remote")]
    Http(&'a str),
    /// An object, or the folder of some. The key is taken as it stands: nothing in it is an escape.
    #[cfg(feature = "remote")]
    Object { scheme: &'a str, bucket: &'a str, key: &'a str },
}

pub(crate) fn locate(name: &str) -> Result<Location<'_>> {
    let Some((scheme, rest)) = name.split_once("://") else { return Ok(Location::Local(name)) };
    match scheme {
        "file" => Ok(Location::Local(rest)),
        #[cfg(feature = "remote")]
        "http" | "https" => Ok(Location::Http(name)),
        #[cfg(feature = "remote")]
        "s3" | "gs" | "az" => {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                bail!(Usage, "{name} names no bucket: {scheme}://bucket/key is expected");
            }
            Ok(Location::Object { scheme, bucket, key })
        }
        #[cfg(not(feature = "remote"))]
        "http" | "https" | "s3" | "gs" | "az" => {
            bail!(Usage, "this build reads no {scheme}:// addresses: it lacks the feature `remote`")
        }
        // Not the shape of a scheme: a path with an odd name.
        _ if !is_scheme(scheme) => Ok(Location::Local(name)),
        _ => bail!(Usage, "no store is known for {scheme}://; there are file, http, https, s3, gs and az"),
    }
}

/// Whether a name is that of a file of this machine, which is written without waiting for a network.
pub fn is_local(name: &str) -> bool {
    matches!(locate(name), Ok(Location::Local(_)))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The name without what may be secret in it: the query and the fragment of a web address, such as a signature.
#[cfg(feature = "remote")]
pub(crate) fn without_secrets(name: &str) -> String {
    if !name.starts_with("http://") && !name.starts_with("https://") {
        return name.to_string();
    }
    match name.find(['?', '#']) {
        Some(at) => format!("{}?...", &name[..at]),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for path in ["a/b", "/a", "a b://c/d", "", "://x"] {
            assert_eq!(locate(path).unwrap(), Location::Local(path));
        }
        assert_eq!(locate("file:///a/b").unwrap(), Location::Local("/a/b"));
        let error = locate("hdfs://a/b").unwrap_err();
        assert!(error.message().contains("hdfs") && error.message().contains("s3"), "{error}");
    }

    #[cfg(feature = "remote")]
    #[test]
    fn far_names_are_taken_apart() {
        let object = |scheme, bucket, key| Location::Object { scheme, bucket, key };
        assert_eq!(locate("s3://b/x/y?z%20#").unwrap(), object("s3", "b", "x/y?z%20#"));
        assert_eq!(locate("gs://b").unwrap(), object("gs", "b", ""));
        assert_eq!(locate("https://h/p?q").unwrap(), Location::Http("https://h/p?q"));
        assert!(locate("s3:///key").unwrap_err().message().contains("bucket"));
    }

    #[cfg(feature = "remote")]
    #[test]
    fn secrets_are_left_out() {
        assert_eq!(without_secrets("https://h/p?X-Amz-Signature=abc"), "https://h/p?...");
        assert_eq!(without_secrets("https://h/p"), "https://h/p");
        assert_eq!(without_secrets("s3://b/p?q"), "s3://b/p?q");
    }
}
