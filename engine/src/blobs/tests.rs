//! Both kinds of store keep the same promises.

use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;

use super::*;

fn stores() -> (Vec<Arc<dyn BlobStore>>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let memory = Arc::new(InMemory::new());
    let root = object_store::path::Path::from("job/a");
    let objects = ObjectBlobs::new(memory.clone(), Some(memory), root, "memory://job/a");
    let local = LocalBlobs::new(directory.path().join("deep/er"));
    (vec![Arc::new(local), Arc::new(objects)], directory)
}

#[test]
fn blobs_are_written_listed_read_and_removed() {
    let (stores, _directory) = stores();
    for store in stores {
        assert!(store.list("").unwrap().is_empty());
        assert_eq!(store.get("x").unwrap(), None);
        store.put("a/x", Bytes::from_static(b"one")).unwrap();
        store.put("a/x", Bytes::from_static(b"three")).unwrap();
        store.put("ab", Bytes::from_static(b"")).unwrap();
        assert!(!store.create("ab", Bytes::from_static(b"no")).unwrap());
        assert!(store.create("b/c/d", Bytes::from_static(b"yes")).unwrap());
        let paths = |prefix: &str| -> Vec<String> {
            let blobs = store.list(prefix).unwrap().into_iter();
            blobs.map(|blob| blob.path).collect()
        };
        assert_eq!(paths(""), ["a/x", "ab", "b/c/d"]);
        assert_eq!(paths("a"), ["a/x"]);
        assert_eq!(store.list("a").unwrap()[0].bytes, 5);
        assert_eq!(&store.get("a/x").unwrap().unwrap()[..], b"three");
        assert_eq!(&store.get_range("a/x", 1, 3).unwrap()[..], b"hre");
        store.delete("b/c/d").unwrap();
        store.delete("b/c/d").unwrap();
        assert_eq!(paths("b"), Vec::<String>::new());
    }
}

#[test]
fn an_upload_is_a_blob_only_when_completed_by_whomever() {
    let (stores, _directory) = stores();
    for store in stores {
        let mut upload = store.start_upload("out/part").unwrap();
        store
            .put_part(&mut upload, Bytes::from_static(b"ab"))
            .unwrap();
        store
            .put_part(&mut upload, Bytes::from_static(b"cd"))
            .unwrap();
        assert!(store.list("").unwrap().is_empty());
        let text = serde_json::to_string(&upload).unwrap();
        let elsewhere: Upload = serde_json::from_str(&text).unwrap();
        store.complete_upload(&elsewhere).unwrap();
        store.complete_upload(&elsewhere).unwrap();
        assert_eq!(&store.get("out/part").unwrap().unwrap()[..], b"abcd");
        let mut dropped = store.start_upload("out/other").unwrap();
        store
            .put_part(&mut dropped, Bytes::from_static(b"x"))
            .unwrap();
        store.abort_upload(&dropped).unwrap();
        store.abort_upload(&dropped).unwrap();
        assert_eq!(store.list("").unwrap().len(), 1);
    }
}

#[test]
fn a_store_in_memory_is_the_same_for_all_who_name_it() {
    let store = open_blobs("memory://blobs-test/a").unwrap();
    store.put("b/c", Bytes::from_static(b"x")).unwrap();
    let same = open_blobs("memory://blobs-test/a/b").unwrap();
    assert_eq!(&same.get("c").unwrap().unwrap()[..], b"x");
    let mut upload = same.start_upload("d").unwrap();
    same.put_part(&mut upload, Bytes::from_static(b"y"))
        .unwrap();
    let again = open_blobs("memory://blobs-test/a/b").unwrap();
    again.complete_upload(&upload).unwrap();
    assert_eq!(&store.get("b/d").unwrap().unwrap()[..], b"y");
    let other = open_blobs("memory://blobs-test-other/a").unwrap();
    assert!(other.list("").unwrap().is_empty());
    assert!(open_blobs("memory:///a").is_err());
}

#[test]
fn a_url_that_nothing_speaks_to_is_refused_with_what_is_understood() {
    let error = open_blobs("ftp://somewhere/x").unwrap_err().to_string();
    assert!(error.contains("ftp://somewhere/x"), "{error}");
    assert!(open_blobs("").is_err());
}
