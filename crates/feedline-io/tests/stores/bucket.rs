//! Objects of a store that speaks S3 (and so the XML of Google's), or Azure's blobs, with faults: reading, listing and
//! writing.

use crate::conform::{bytes, conforms};
use crate::faults::impatient;
use crate::server::{Reply, Request, Server};
use feedline_io::{Account, Kind, create, exists, expand, expand_all, glob, open};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{LazyLock, Mutex};

/// As much of the protocols as is needed. Objects in buckets that begin with `busy` are refused twice before they are
/// given.
#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    /// Azure's parts of blobs that are being written, by their ids.
    blocks: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
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
        // Azure's addresses begin with the account.
        let (name, azure) = match name.strip_prefix("devstoreaccount1/") {
            Some(name) => (name.to_string(), true),
            None => (name, false),
        };
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
        if azure {
            return self.answer_azure(request, name, &query);
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

    fn answer_azure(&mut self, request: &Request, name: String, query: &BTreeMap<String, String>) -> Reply {
        match (request.method.as_str(), query.get("comp").map(String::as_str)) {
            ("GET", Some("list")) => self.list_azure(&name, query),
            ("GET" | "HEAD", _) => match self.objects.get(&name) {
                Some(bytes) => Reply::of(bytes, request),
                None => Reply::new(404, "<Error><Code>BlobNotFound</Code></Error>"),
            },
            ("PUT", Some("block")) => {
                let blocks = self.blocks.entry(name).or_default();
                blocks.insert(query["blockid"].clone(), request.body.clone());
                Reply::new(201, "")
            }
            ("PUT", Some("blocklist")) => {
                let blocks = self.blocks.remove(&name).unwrap_or_default();
                let text = String::from_utf8(request.body.clone()).unwrap();
                let ids = text.split("<Uncommitted>").skip(1).map(|part| part.split('<').next().unwrap());
                let whole = ids.flat_map(|id| blocks[id].clone()).collect();
                self.objects.insert(name, whole);
                Reply::new(201, "").with("ETag", "\"e\"")
            }
            ("PUT", None) => {
                self.objects.insert(name, request.body.clone());
                Reply::new(201, "").with("ETag", "\"e\"")
            }
            _ => Reply::new(400, "what?"),
        }
    }

    /// Keys with this prefix, and the folders among them.
    fn entries(&self, bucket: &str, query: &BTreeMap<String, String>) -> BTreeSet<String> {
        let bucket = format!("{}/", bucket.trim_end_matches('/'));
        let prefix = query.get("prefix").cloned().unwrap_or_default();
        let mut entries = BTreeSet::new();
        for name in self.objects.keys() {
            let Some(key) = name.strip_prefix(&bucket).filter(|key| key.starts_with(&prefix)) else { continue };
            let end = key[prefix.len()..].find('/').map_or(key.len(), |at| prefix.len() + at + 1);
            entries.insert(key[..end].to_string());
        }
        entries
    }

    fn list_azure(&self, bucket: &str, query: &BTreeMap<String, String>) -> Reply {
        let entries = self.entries(bucket, query);
        let from: usize = query.get("marker").map_or(0, |token| token.parse().unwrap());
        let mut xml = String::from("<EnumerationResults><Blobs>");
        for key in entries.iter().skip(from).take(PAGE) {
            xml.push_str(&match key.ends_with('/') {
                true => format!("<BlobPrefix><Name>{key}</Name></BlobPrefix>"),
                false => format!(
                    "<Blob><Name>{key}</Name><Properties><Last-Modified>Mon, 01 Jan 2024 00:00:00 GMT</Last-Modified>\
                     <Content-Length>1</Content-Length><Content-Type>any</Content-Type><Etag>e</Etag></Properties></Blob>"
                ),
            });
        }
        let next = if entries.len() > from + PAGE { (from + PAGE).to_string() } else { String::new() };
        Reply::new(200, format!("{xml}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"))
    }

    fn list(&self, bucket: &str, query: &BTreeMap<String, String>) -> Reply {
        let entries = self.entries(bucket, query);
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
        let account = format!(
            r#"{{"gcs_base_url": "{}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#,
            endpoint.trim_end_matches('/')
        );
        for (name, value) in [
            ("AWS_ENDPOINT_URL", endpoint.trim_end_matches('/')),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "me"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_REGION", "here"),
            ("GOOGLE_SERVICE_ACCOUNT_KEY", &account),
            ("GOOGLE_ALLOW_HTTP", "true"),
            ("AZURITE_BLOB_STORAGE_URL", endpoint.trim_end_matches('/')),
            ("AZURE_STORAGE_USE_EMULATOR", "true"),
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

/// The other stores: the same objects by other words.
#[test]
fn stores_of_other_makers_conform() {
    for (scheme, missing) in [("gs", "NoSuchKey"), ("az", "BlobNotFound")] {
        let (all, bucket) = (bytes(300_000), format!("{scheme}-read"));
        let names: Vec<String> = ["a b+c.bin", "busy", "sub/one", "sub/two", "sub/deep/three", "x1", "x2", "x3"]
            .map(|key| format!("{bucket}/{key}"))
            .into();
        with(&names.iter().map(|name| (name.as_str(), all.clone())).collect::<Vec<_>>());
        with(&[(&format!("busy-{bucket}/x"), all.clone())]);
        let url = |key: &str| format!("{scheme}://{bucket}/{key}");
        conforms(|| open(&url("a b+c.bin")).unwrap(), &all);
        conforms(|| open(&format!("{scheme}://busy-{bucket}/x")).unwrap(), &all);
        let error = open(&url("none")).unwrap().read(0, 10).wait().unwrap_err().to_string();
        assert!(error.contains(missing) && error.contains(&url("none")), "{error}");
        assert_eq!(glob(&url("x*")).unwrap(), [url("x1"), url("x2"), url("x3")]);
        assert_eq!(expand(&url("sub")).unwrap(), [url("sub/one"), url("sub/two")]);
        assert_eq!(expand(&url("sub/**")).unwrap().len(), 3);
        assert!(exists(&url("sub")).unwrap() && !exists(&url("su")).unwrap());
        for (key, len) in [("small", 100), ("none", 0), ("large", (11 << 20) + 7)] {
            let (name, all) = (format!("{scheme}-write/{key}"), bytes(len));
            let url = format!("{scheme}://{name}");
            let mut sink = create(&url).unwrap();
            sink.write_all(&all).unwrap();
            assert!(!STORE.lock().unwrap().objects.contains_key(&name));
            sink.commit().unwrap();
            assert_eq!(open(&url).unwrap().read(0, usize::MAX).wait().unwrap().as_slice(), all);
        }
        let half = format!("{scheme}-write/half");
        let mut sink = create(&format!("{scheme}://{half}")).unwrap();
        sink.write_all(&bytes(6 << 20)).unwrap();
        drop(sink);
        assert!(!STORE.lock().unwrap().objects.contains_key(&half));
    }
}

#[test]
fn objects_that_cannot_be_read_are_named() {
    with(&[]);
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    for (name, cause, words) in [
        ("s3://read/not/there", NotFound, vec!["no such object", "s3://read/not/there", "NoSuchKey"]),
        ("s3://secret/x", PermissionDenied, vec!["AccessDenied: not you", "credentials", "s3://secret/x"]),
    ] {
        let error = open(name).unwrap().read(0, 10).wait().unwrap_err();
        // As those of this machine say it.
        for error in [&error, &open(name).unwrap().stat().wait().unwrap_err()] {
            let said = error.cause().and_then(|c| c.downcast_ref::<std::io::Error>()).map(|e| e.kind());
            assert_eq!(said, Some(cause), "{error}");
        }
        assert_eq!(error.kind(), Kind::Io);
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        assert!(!error.to_string().contains("hush"), "{error}");
        assert!(open(name).unwrap().stat().wait().is_err());
    }
    // A folder is none, and neither is a bucket: what is in them is.
    with(&[("below/d/x", vec![1])]);
    for error in [
        open("s3://below/d").unwrap().read(0, 10).wait().map(drop),
        open("s3://below/d").unwrap().stat().wait().map(drop),
    ] {
        let error = error.unwrap_err();
        assert!(error.to_string().contains("name it s3://below/d/"), "{error}");
    }
    for (name, word) in [("s3://below", "bucket"), ("s3://below/", "bucket"), ("s3://below/d/", "folder")] {
        let error = open(name).err().unwrap();
        assert!(error.kind() == Kind::Usage && error.to_string().contains(word), "{error}");
    }
    for name in ["s3://b/a//b", "s3://b/a/../b"] {
        assert_eq!(open(name).unwrap_err().kind(), Kind::Usage);
    }
}

#[test]
fn patterns_find_objects() {
    let keys =
        ["a-1.txt", "a-2.txt", "b.txt", "sub/c.txt", "sub/d.txt", "sub/deep/e.txt", "other/f.txt", "q?.txt", ".h.txt"];
    // An index beside a record file is no data.
    with(&[("index/a", vec![1]), ("index/a.flidx", vec![1])]);
    for name in ["s3://index", "s3://index/*", "s3://index/a*"] {
        assert_eq!(expand(name).unwrap(), ["s3://index/a"]);
    }
    assert_eq!(expand("s3://index/a.flidx").unwrap(), ["s3://index/a.flidx"]);
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
fn parts_are_charged_until_they_have_arrived() {
    with(&[]);
    let account = Account::open(40 << 20, usize::MAX);
    let entered = Account::enter(Some(account));
    let mut sink = create("s3://write/charged").unwrap();
    let all = bytes(26 << 20);
    let mut most = 0;
    for part in all.chunks(1 << 20) {
        sink.write_all(part).unwrap();
        most = most.max(account.live());
    }
    sink.commit().unwrap();
    drop(entered);
    // A part in the making, which may have been twice as large when it grew, and those on their way: a quarter of the limit.
    assert!((5 << 20..=25 << 20).contains(&most), "{most}");
    assert_eq!(account.live(), 0);
    account.close();
    assert_eq!(STORE.lock().unwrap().objects["write/charged"], all);
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
    assert!(store.aborted >= 1);
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
