//! Objects of a store that speaks S3, with faults: reading, listing and writing.

use crate::conform::{bytes, conforms};
use crate::faults::impatient;
use crate::server::{Reply, Request, Server};
use feedline_io::{Kind, create, exists, expand, expand_all, glob, open};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{LazyLock, Mutex};

/// As much of S3 as is needed. Objects in buckets that begin with `busy` are refused twice before they are given.
#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    refused: BTreeMap<String, usize>,
    aborted: usize,
}

static STORE: LazyLock<Mutex<Store>> = LazyLock::new(Mutex::default);
/// One for all tests: its address is in the environment.
static SERVER: LazyLock<Server> = LazyLock::new(|| Server::new(|request, _| STORE.lock().unwrap().answer(request)));

/// Keys that a page of a list has: few, so that there are pages.
const PAGE: usize = 3;

impl Store {
    fn answer(&mut self, request: &Request) -> Reply {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let query: BTreeMap<String, String> = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.to_string(), unescaped(value)))
            .collect();
        let name = unescaped(path.trim_start_matches('/'));
        if name.starts_with("busy") {
            let refused = self.refused.entry(format!("{} {}", request.method, request.path)).or_default();
            *refused += 1;
            if *refused <= 2 {
                return Reply::new(503, "<Error><Code>SlowDown</Code><Message>later</Message></Error>");
            }
        }
        if name.starts_with("secret") {
            return Reply::new(403, "<Error><Code>AccessDenied</Code><Message>not you</Message></Error>");
        }
        match (request.method.as_str(), query.get("uploadId"), query.get("partNumber")) {
            ("GET", ..) if query.contains_key("list-type") => self.list(&name, &query),
            ("GET" | "HEAD", ..) => match self.objects.get(&name) {
                Some(bytes) => Reply::of(bytes, request),
                None => Reply::new(404, "<Error><Code>NoSuchKey</Code></Error>"),
            },
            ("POST", None, _) => {
                let id = self.uploads.len().to_string();
                self.uploads.insert(id.clone(), BTreeMap::new());
                Reply::new(
                    200,
                    format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"),
                )
            }
            ("PUT", Some(id), Some(part)) => {
                self.uploads.get_mut(id).unwrap().insert(part.parse().unwrap(), request.body.clone());
                Reply::new(200, "").with("ETag", "\"part\"")
            }
            ("POST", Some(id), _) => {
                let whole = self.uploads.insert(id.clone(), BTreeMap::new()).unwrap();
                self.objects.insert(name, whole.into_values().flatten().collect());
                Reply::new(200, "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>")
            }
            ("DELETE", Some(id), _) => {
                self.uploads.insert(id.clone(), BTreeMap::new());
                self.aborted += 1;
                Reply::new(204, "")
            }
            ("PUT", ..) => {
                self.objects.insert(name, request.body.clone());
                Reply::new(200, "").with("ETag", "\"e\"")
            }
            _ => Reply::new(400, "what?"),
        }
    }

    fn list(&self, bucket: &str, query: &BTreeMap<String, String>) -> Reply {
        let bucket = format!("{}/", bucket.trim_end_matches('/'));
        let prefix = query.get("prefix").cloned().unwrap_or_default();
        let mut entries = BTreeSet::new();
        for name in self.objects.keys() {
            let Some(key) = name.strip_prefix(&bucket).filter(|key| key.starts_with(&prefix)) else { continue };
            let end = key[prefix.len()..].find('/').map_or(key.len(), |at| prefix.len() + at + 1);
            entries.insert(key[..end].to_string());
        }
        let from: usize = query.get("continuation-token").map_or(0, |token| token.parse().unwrap());
        let mut xml = String::from("<ListBucketResult>");
        for key in entries.iter().skip(from).take(PAGE) {
            xml.push_str(&match key.ends_with('/') {
                true => format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>"),
                false => format!(
                    "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>\
                     <ETag>\"e\"</ETag><Size>1</Size></Contents>"
                ),
            });
        }
        if entries.len() > from + PAGE {
            xml.push_str(&format!("<NextContinuationToken>{}</NextContinuationToken>", from + PAGE));
        }
        Reply::new(200, xml + "</ListBucketResult>")
    }
}

fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(out).unwrap()
}

/// The server in the environment, with some objects.
fn with(objects: &[(&str, Vec<u8>)]) {
    static ENVIRONMENT: LazyLock<()> = LazyLock::new(|| {
        let endpoint = SERVER.url("");
        for (name, value) in [
            ("AWS_ENDPOINT_URL", endpoint.trim_end_matches('/')),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "me"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_REGION", "here"),
        ] {
            // SAFETY: nothing in this process reads the environment other than through the standard library, which
            // takes turns.
            unsafe { std::env::set_var(name, value) };
        }
    });
    impatient();
    *ENVIRONMENT;
    let mut store = STORE.lock().unwrap();
    store.objects.extend(objects.iter().map(|(name, bytes)| (name.to_string(), bytes.clone())));
}

#[test]
fn objects_conform() {
    let all = bytes(1_500_000);
    with(&[("read/a b+c%20#?.bin", all.clone()), ("busy-read/x", all.clone()), ("read/empty", Vec::new())]);
    conforms(|| open("s3://read/a b+c%20#?.bin").unwrap(), &all);
    conforms(|| open("s3://read/empty").unwrap(), &[]);
    // Each of its requests is refused twice at first.
    conforms(|| open("s3://busy-read/x").unwrap(), &all);
}

#[test]
fn objects_that_cannot_be_read_are_named() {
    with(&[]);
    for (name, words) in [
        ("s3://read/not/there", vec!["no such object", "s3://read/not/there", "NoSuchKey"]),
        ("s3://secret/x", vec!["AccessDenied: not you", "credentials", "s3://secret/x"]),
    ] {
        let error = open(name).unwrap().read(0, 10).wait().unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        assert!(!error.to_string().contains("hush"), "{error}");
        assert!(open(name).unwrap().stat().wait().is_err());
    }
    for name in ["s3://b/a//b", "s3://b/a/../b"] {
        assert_eq!(open(name).unwrap_err().kind(), Kind::Usage);
    }
}

#[test]
fn patterns_find_objects() {
    let keys =
        ["a-1.txt", "a-2.txt", "b.txt", "sub/c.txt", "sub/d.txt", "sub/deep/e.txt", "other/f.txt", "q?.txt", ".h.txt"];
    let objects: Vec<(String, Vec<u8>)> = keys.iter().map(|key| (format!("list/{key}"), vec![1])).collect();
    with(&objects.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect::<Vec<_>>());
    let found = |names: feedline_io::Result<Vec<String>>| -> Vec<String> {
        names.unwrap().iter().map(|name| name.strip_prefix("s3://list/").unwrap().to_string()).collect()
    };
    assert_eq!(found(glob("s3://list/*.txt")), [".h.txt", "a-1.txt", "a-2.txt", "b.txt", "q?.txt"]);
    assert_eq!(found(glob("s3://list/*/[cf].txt")), ["other/f.txt", "sub/c.txt"]);
    assert_eq!(found(glob("s3://list/*")).len(), 7);
    assert_eq!(found(glob("s3://list/nope*")), [""; 0]);
    assert_eq!(found(expand("s3://list/a-?.txt")), ["a-1.txt", "a-2.txt"]);
    assert_eq!(found(expand("s3://list/q?.txt")), ["q?.txt"]);
    assert_eq!(found(expand("s3://list/sub")), ["sub/c.txt", "sub/d.txt"]);
    assert_eq!(found(expand("s3://list/sub/")), ["sub/c.txt", "sub/d.txt"]);
    assert_eq!(found(expand("s3://list")).len(), 4);
    assert_eq!(found(expand("s3://list/**/*.txt")).len(), 9);
    assert_eq!(found(expand("s3://list/sub/**")), ["sub/c.txt", "sub/d.txt", "sub/deep/e.txt"]);
    let names = ["s3://list/b.txt", "s3://list/other", "s3://list/a*"];
    assert_eq!(found(expand_all(&names)), ["b.txt", "other/f.txt", "a-1.txt", "a-2.txt"]);
    assert!(exists("s3://list/b.txt").unwrap() && exists("s3://list/sub").unwrap());
    assert!(!exists("s3://list/su").unwrap());
    for (name, word) in
        [("s3://list/*.csv", "7 entries"), ("s3://list/x", "no file or folder"), ("s3://secret/*", "AccessDenied")]
    {
        let error = expand(name).unwrap_err();
        assert!(error.to_string().contains(word) && error.to_string().contains("s3://"), "{error}");
    }
    // A web address is what it is.
    assert_eq!(expand("http://h/a*?b[").unwrap(), ["http://h/a*?b["]);
}

#[test]
fn objects_are_written_whole_or_not_at_all() {
    with(&[]);
    for (name, len) in
        [("write/small", 100), ("write/none", 0), ("write/large", (11 << 20) + 7), ("busy-write/x", 6 << 20)]
    {
        let all = bytes(len);
        let url = format!("s3://{name}");
        let mut sink = create(&url).unwrap();
        sink.write_all(&all[..len / 3]).unwrap();
        sink.write_all(&all[len / 3..]).unwrap();
        assert!(!STORE.lock().unwrap().objects.contains_key(name));
        sink.commit().unwrap();
        assert_eq!(STORE.lock().unwrap().objects[name], all);
        assert_eq!(open(&url).unwrap().read(0, usize::MAX).wait().unwrap().as_slice(), all);
    }
    let mut sink = create("s3://write/half").unwrap();
    sink.write_all(&bytes(6 << 20)).unwrap();
    drop(sink);
    let store = STORE.lock().unwrap();
    assert!(!store.objects.contains_key("write/half"));
    assert_eq!(store.aborted, 1);
    drop(store);
    let mut sink = create("s3://secret/x").unwrap();
    sink.write_all(b"x").unwrap();
    let error = sink.commit().unwrap_err();
    assert!(error.to_string().contains("s3://secret/x") && error.to_string().contains("AccessDenied"), "{error}");
    let mut sink = create("s3://secret/x").unwrap();
    assert!(sink.write_all(&bytes(6 << 20)).is_err());
    assert!(sink.commit().is_err());
    for name in ["s3://write/", "s3://write", "s3://write/a/", "http://h/x"] {
        assert_eq!(create(name).err().unwrap().kind(), Kind::Usage, "{name}");
    }
}
