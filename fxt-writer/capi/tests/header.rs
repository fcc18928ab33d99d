//! The committed header equals cbindgen's output for the source.

use std::path::Path;

#[test]
fn the_header_is_made_from_the_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a sound file");
    // cbindgen finds the modules from there.
    let builder = cbindgen::Builder::new().with_config(config).with_src(folder.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().expect("sources that can be read").write(&mut made);
    let made = String::from_utf8(made).expect("text");

    let path = folder.join("fxt_provider.h");
    if std::env::var_os("FXT_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("a folder that can be written to");
    }
    let committed = std::fs::read_to_string(&path).expect("the committed header");
    assert!(committed == made, "run this test with FXT_WRITE_HEADER=1 and commit fxt_provider.h");
}
