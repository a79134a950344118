//! Reads from servers that are slow, busy, broken or hostile: right, tried again, or refused with the cause.

use crate::conform::{bytes, conforms};
use crate::server::{Reply, Server};
use feedline_io::{Blocks, Cache, Cached, Kind, Settings, Source, configure, open};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

/// Patience for tests: short pauses, and no waiting for servers that are stuck.
pub fn impatient() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        configure(Settings {
            attempts: 4,
            backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(4),
            idle_timeout: Duration::from_millis(800),
            block_bytes: 256 << 10,
            gap_bytes: 4096,
            part_bytes: 5 << 20,
            ..Settings::default()
        });
    });
}

fn source(server: &Server) -> Arc<dyn Source> {
    impatient();
    open(&server.url("some/file.bin")).unwrap()
}

/// The error of a read from a server that answers like this.
fn refused(answer: impl Fn(&crate::server::Request, usize) -> Reply + Send + Sync + 'static) -> (String, usize) {
    let server = Server::new(answer);
    let error = source(&server).read(10, 1000).wait().unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    let text = error.to_string();
    assert!(text.contains(&server.url("some/file.bin")) && text.contains("at byte 10"), "{text}");
    (text, server.log().len())
}

#[test]
fn pages_conform() {
    for len in [1, 1 << 20, 3_000_001] {
        let server = Server::of(bytes(len));
        conforms(|| source(&server), &bytes(len));
    }
    // An empty object has no ranges at all.
    let server = Server::of(Vec::new());
    conforms(|| source(&server), &[]);
}

#[test]
fn cached_pages_conform() {
    let dir = tempfile::tempdir().unwrap();
    let all = bytes(3_000_001);
    let server = Server::of(all.clone());
    let cache = Cache::open(dir.path(), 1 << 30);
    let cached = || Arc::new(Cached::new(source(&server), cache.clone(), "address")) as Arc<dyn Source>;
    conforms(cached, &all);
    let gets = |server: &Server| server.log().iter().filter(|r| r.method == "GET").count();
    let before = gets(&server);
    conforms(cached, &all);
    assert_eq!(gets(&server), before, "all of it is kept");
}

#[test]
fn slow_first_bytes_are_waited_for() {
    let all = bytes(100_000);
    let server = {
        let all = all.clone();
        Server::new(move |request, _| Reply { first_byte: Duration::from_millis(30), ..Reply::of(&all, request) })
    };
    assert_eq!(source(&server).read(0, 100_000).wait().unwrap().as_slice(), all);
}

#[test]
fn reads_overlap() {
    // With a pause before each first byte, many requests must be under way at once to be there together.
    let all = bytes(8 << 20);
    let (now, most) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let server = {
        let (all, now, most) = (all.clone(), now.clone(), most.clone());
        Server::new(move |request, _| {
            let seen = {
                let mut now = now.lock().unwrap();
                *now += 1;
                *now
            };
            let mut best = most.lock().unwrap();
            *best = seen.max(*best);
            drop(best);
            std::thread::sleep(Duration::from_millis(20));
            *now.lock().unwrap() -= 1;
            Reply::of(&all, request)
        })
    };
    let mut blocks = Blocks::new(source(&server), 0, None);
    let mut got = Vec::new();
    while let Some(block) = blocks.next_block() {
        got.extend_from_slice(block.unwrap().as_slice());
    }
    assert_eq!(got, all);
    assert!(*most.lock().unwrap() >= 4, "{}", most.lock().unwrap());
}

#[test]
fn busy_servers_are_asked_again() {
    for status in [408, 429, 500, 502, 503, 504] {
        let all = bytes(5000);
        let expected = all.clone();
        let server = Server::new(move |request, n| match n {
            0..3 => Reply::new(status, "busy").with("Retry-After", 0),
            _ => Reply::of(&all, request),
        });
        assert_eq!(source(&server).read(0, 5000).wait().unwrap().as_slice(), expected);
        assert_eq!(server.log().len(), 4);
        let (error, asked) = refused(move |_, _| Reply::new(status, "<html>busy"));
        assert!(error.contains(&format!("status {status}")) && error.contains("tried 4 times in"), "{error}");
        assert_eq!(asked, 4);
    }
}

#[test]
fn refusals_are_final() {
    for (status, word) in
        [(400, "status 400"), (401, "credentials"), (403, "credentials"), (404, "no such"), (410, "410")]
    {
        let (error, asked) = refused(move |_, _| Reply::new(status, "because of the weather"));
        assert!(error.contains(word) && error.contains("because of the weather"), "{error}");
        assert_eq!(asked, 1, "{error}");
    }
}

#[test]
fn cut_bodies_are_read_again() {
    let all = bytes(50_000);
    let expected = all.clone();
    let server = Server::new(move |request, n| match n {
        0 => Reply { cut: Some(0), ..Reply::of(&all, request) },
        1 => Reply { cut: Some(20_000), ..Reply::of(&all, request) },
        2 => Reply { cut: Some(49_999), ..Reply::of(&all, request) },
        _ => Reply::of(&all, request),
    });
    assert_eq!(source(&server).read(0, 50_000).wait().unwrap().as_slice(), expected);
    let all = bytes(50_000);
    let (error, asked) = refused(move |request, _| Reply { cut: Some(500), ..Reply::of(&all, request) });
    assert!(error.contains("tried 4 times"), "{error}");
    assert_eq!(asked, 4);
}

#[test]
fn silent_servers_are_given_up() {
    for stuck in [false, true] {
        let all = bytes(50_000);
        let (error, asked) = refused(move |request, _| Reply {
            stuck: Some(stuck),
            body: Vec::new(),
            says_len: Some("1000".into()),
            ..Reply::of(&all, request)
        });
        assert!(error.contains("nothing came for 0.8 s") && error.contains("tried 4 times"), "{error}");
        assert_eq!(asked, 4);
    }
    // Nobody listens at all.
    let server = Server::of(Vec::new());
    let url = server.url("x");
    drop(server);
    impatient();
    let error = open(&url).unwrap().read(0, 1).wait().unwrap_err();
    assert!(error.to_string().contains("tried 4 times"), "{error}");
}

#[test]
fn wrong_answers_are_refused() {
    let all = bytes(50_000);
    let ranges = [
        "bytes 0-999/50000",
        "bytes 10-1008/50000",
        "bytes 10-1010/50000",
        "bytes 10-9/50000",
        "bytes 10-1009/500",
        "bytes 10-1009/*",
        "bytes 10-18446744073709551615/50000",
        "bytes 18446744073709551615-18446744073709551615/18446744073709551615",
        "bytes -5--3/7",
        "apples",
        "",
    ];
    for range in ranges {
        let all = all.clone();
        let (error, asked) = refused(move |request, _| Reply::of(&all, request).with("Content-Range", range));
        assert!(asked <= 3, "{range}: {error}");
    }
    // A length that the body does not have.
    for (says, endless) in
        [("999", false), ("1001", false), ("1001", true), ("99999999999", true), ("apples", false), ("-1", false)]
    {
        let all = all.clone();
        let (error, asked) = refused(move |request, _| {
            let reply = Reply { says_len: Some(says.into()), endless, ..Reply::of(&all, request) };
            if says == "1001" && !endless { Reply { cut: Some(1000), ..reply } } else { reply }
        });
        assert!(asked <= 4, "{says}: {error}");
    }
    // An endless excuse.
    let (error, asked) =
        refused(|_, _| Reply { says_len: Some("1099511627776".into()), endless: true, ..Reply::new(404, "no") });
    assert!(error.contains("404"), "{error}");
    assert_eq!(asked, 1);
}

#[test]
fn one_broken_server_of_many_is_passed_over() {
    let all = bytes(50_000);
    let expected = all[10..1010].to_vec();
    let server = Server::new(move |request, n| {
        let reply = Reply::of(&all, request);
        if n == 0 { reply.with("Content-Range", "bytes 0-999/50000") } else { reply }
    });
    assert_eq!(source(&server).read(10, 1000).wait().unwrap().as_slice(), expected);
}

#[test]
fn a_large_claim_takes_no_memory() {
    // The server says that there is a terabyte, and hangs up after a little of it.
    let (error, _) = refused(|request, _| {
        let (first, last) = request.range.unwrap();
        Reply { cut: Some(100), says_len: Some((last - first + 1).to_string()), ..Reply::new(206, vec![0; 100]) }
            .with("Content-Range", format!("bytes {first}-{last}/1152921504606846976"))
    });
    assert!(error.contains("tried 4 times"), "{error}");
    let server = Server::new(|request, _| {
        let (first, last) = request.range.unwrap();
        Reply { cut: Some(100), says_len: Some((last - first + 1).to_string()), ..Reply::new(206, vec![0; 100]) }
            .with("Content-Range", format!("bytes {first}-{last}/1152921504606846976"))
    });
    source(&server).read(0, 1 << 59).wait().unwrap_err();
}

#[test]
fn servers_without_ranges_give_the_whole() {
    let all = bytes(300_000);
    let expected = all.clone();
    let server = Server::new(move |_, _| Reply::new(200, all.clone()));
    conforms(|| source(&server), &expected);
    // But not if it is large.
    let (error, _) =
        refused(|_, _| Reply { endless: true, says_len: Some("99999999999".into()), ..Reply::new(200, "x") });
    assert!(error.contains("no ranges"), "{error}");
}

#[test]
fn addresses_that_allow_only_reading_have_a_length() {
    let all = bytes(5000);
    let expected = all.clone();
    let server = Server::new(move |request, _| match request.method.as_str() {
        "HEAD" => Reply::new(403, ""),
        _ => Reply::of(&all, request),
    });
    conforms(|| source(&server), &expected);
    let server = Server::new(|_, _| Reply::new(404, ""));
    let error = source(&server).stat().wait().unwrap_err();
    assert!(error.to_string().contains("no such"), "{error}");
}

#[test]
fn redirects_are_followed() {
    let all = bytes(5000);
    let target = Arc::new(Server::of(all.clone()));
    let server = {
        let target = target.clone();
        Server::new(move |_, _| Reply::new(302, "").with("Location", target.url("elsewhere")))
    };
    assert_eq!(source(&server).read(100, 200).wait().unwrap().as_slice(), &all[100..300]);
    assert_eq!(target.log()[0].path, "/elsewhere");
    // Round in a circle.
    let server = Server::new(|request, _| Reply::new(302, "").with("Location", request.path.clone()));
    let error = source(&server).read(0, 10).wait().unwrap_err();
    assert!(error.to_string().contains("redirect"), "{error}");
}

#[test]
fn an_object_that_changes_is_noticed() {
    let all = bytes(50_000);
    let server = Server::new(move |request, n| {
        let reply = Reply::of(&all, request);
        if n < 2 { reply } else { reply.with("ETag", "\"new\"") }
    });
    let source = source(&server);
    source.clone().read(0, 100).wait().unwrap();
    source.clone().read(100, 100).wait().unwrap();
    let error = source.read(200, 100).wait().unwrap_err();
    assert_eq!(error.kind(), Kind::Loss);
    assert!(error.to_string().contains("changed"), "{error}");
}

#[test]
fn an_object_that_becomes_shorter_does_not_end_early() {
    let all = bytes(10_000);
    let cut = all[..4000].to_vec();
    // The first answer knows 10,000 bytes, later ones 4,000.
    let server = Server::new(move |request, n| Reply::of(if n == 0 { &all } else { &cut }, request));
    let file = source(&server);
    assert_eq!(file.clone().read(0, 1000).wait().unwrap().len(), 1000);
    let error = file.read(5000, 1000).wait().unwrap_err();
    assert!(error.kind() == Kind::Loss && error.to_string().contains("changed while it was read"), "{error}");
}

#[test]
fn addresses_are_asked_as_they_are_and_secrets_stay_secret() {
    let server = Server::new(|request, _| match request.path.contains("ok") {
        true => Reply::of(&bytes(100), request),
        false => Reply::new(503, ""),
    });
    impatient();
    let url = server.url("a%2Fb%20c/ok+d?X-Signature=hush&x=%2f#part");
    open(&url).unwrap().read(0, 100).wait().unwrap();
    assert_eq!(server.log()[0].path, "/a%2Fb%20c/ok+d?X-Signature=hush&x=%2f");
    let source = open(&server.url("no?X-Signature=hush")).unwrap();
    assert!(!source.name().contains("hush"));
    for error in [source.clone().read(0, 1).wait().unwrap_err(), source.stat().wait().unwrap_err()] {
        assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
    }
    for url in [
        "http://me:hush@127.0.0.1:1/x",
        "http:///x",
        "http://",
        "http://a b/",
        "http://[::1/x",
        "https://127.0.0.1:99999/",
    ] {
        let error = match open(url) {
            Ok(source) => source.read(0, 1).wait().unwrap_err(),
            Err(error) => error,
        };
        assert!(!error.to_string().contains("hush"), "{error}");
        assert_eq!(error.kind(), Kind::Usage, "{url}: {error}");
    }
}

#[test]
fn the_deadline_ends_the_tries() {
    impatient();
    let server = Server::new(|_, _| Reply::new(503, "").with("Retry-After", 3600));
    // The pause that a server asks for is bounded as well.
    let error = source(&server).read(0, 1).wait().unwrap_err();
    assert!(error.to_string().contains("tried 4 times"), "{error}");
}
