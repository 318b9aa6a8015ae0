//! What a guest is started with: the user's data, and what the control plane adds to it.
//!
//! Data is recognised by how it begins, as the guest's cloud-init does. A server with an SSH certificate authority gets
//! one more part, which makes the guest trust it; data of any text form is then wrapped, with that part, into one MIME
//! message. The same input gives the same bytes: what is compared with a cloud must not change by itself.

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The most that clouds take, in base64.
pub const USER_DATA_LEN_MAX: usize = 65_535;

const AUTHORITY_KEYS_PATH: &str = "/etc/ssh/trusted-user-ca-keys.pub";
const MANAGED_PART_NAME: &str = "unikorn-ssh-certificate-authority";

/// How data begins, and what cloud-init calls that. The longest of several that fit counts: an archive of
/// configurations is no configuration (B47).
const PREFIXES: [(&str, &str); 9] = [
    ("## template: jinja", "text/jinja2"),
    ("#cloud-config-archive", "text/cloud-config-archive"),
    ("#cloud-config-jsonp", "text/cloud-config-jsonp"),
    ("#cloud-config", "text/cloud-config"),
    ("#cloud-boothook", "text/cloud-boothook"),
    ("#include-once", "text/x-include-once-url"),
    ("#include", "text/x-include-url"),
    ("#part-handler", "text/part-handler"),
    ("#!", "text/x-shellscript"),
];

/// What the data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// One part, by its media type.
    Single(&'static str),
    /// Parts as they were written, headers and all.
    Multipart(Vec<&'a [u8]>),
    /// Opaque: nothing can be added to it.
    Gzip,
}

/// Why data cannot be given to a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUserData {
    #[error("userData must be a form that cloud-init recognises")]
    Unrecognised,
    #[error("userData must not be compressed when an SSH certificate authority is set")]
    Compressed,
    #[error("userData must be at most 65535 bytes of base64, with what is added for SSH access")]
    TooLong,
}

/// May a guest be started with this? `ca_public_key` is that of the authority, if there is one.
pub fn validate(user: &[u8], ca_public_key: Option<&str>) -> Result<(), InvalidUserData> {
    // First, so that nothing else costs more than a short text does.
    fitting(user)?;
    match recognise(user) {
        _ if user.is_empty() => {}
        None => return Err(InvalidUserData::Unrecognised),
        Some(Form::Gzip) if ca_public_key.is_some() => return Err(InvalidUserData::Compressed),
        Some(_) => {}
    }
    fitting(&merged(Some(user), ca_public_key).unwrap_or_default())
}

fn fitting(bytes: &[u8]) -> Result<(), InvalidUserData> {
    if bytes.len().div_ceil(3) * 4 > USER_DATA_LEN_MAX { Err(InvalidUserData::TooLong) } else { Ok(()) }
}

#[must_use]
pub fn recognise(data: &[u8]) -> Option<Form<'_>> {
    if data.starts_with(&[0x1f, 0x8b]) {
        return Some(Form::Gzip);
    }
    let fitting = PREFIXES.iter().filter(|(prefix, _)| data.starts_with(prefix.as_bytes()));
    let longest = fitting.max_by_key(|(prefix, _)| prefix.len());
    longest.map(|(_, media_type)| Form::Single(media_type)).or_else(|| multipart(data).map(Form::Multipart))
}

/// What the guest is started with; `None` for nothing.
#[must_use]
pub fn merged(user: Option<&[u8]>, ca_public_key: Option<&str>) -> Option<Vec<u8>> {
    let user = user.filter(|user| !user.is_empty());
    let Some(managed) = ca_public_key.map(managed_configuration) else { return user.map(<[u8]>::to_vec) };
    let parts = match user.map(|user| (user, recognise(user))) {
        None => return Some(managed.into_bytes()),
        Some((_, Some(Form::Multipart(parts)))) => parts.into_iter().map(<[u8]>::to_vec).collect(),
        Some((user, Some(Form::Single(media_type)))) => vec![part(media_type, None, user)],
        // Never accepted together with an authority: the user's data is not to be lost.
        Some((user, Some(Form::Gzip) | None)) => return Some(user.to_vec()),
    };
    Some(message(parts, part("text/cloud-config", Some(MANAGED_PART_NAME), managed.as_bytes())))
}

/// Lists are appended to those of the user's own configuration, which would otherwise hide them.
fn managed_configuration(ca_public_key: &str) -> String {
    // JSON's strings are YAML's: nothing in a key's comment can end the quotation.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let key = quoted(&format!("{ca_public_key}\n"));
    let trust = quoted(&format!("TrustedUserCAKeys {AUTHORITY_KEYS_PATH}\n"));
    format!(
        "#cloud-config
merge_how:
- name: list
  settings: [append]
- name: dict
  settings: [no_replace, recurse_list]
write_files:
- path: {AUTHORITY_KEYS_PATH}
  owner: root:root
  permissions: '0644'
  content: {key}
- path: /etc/ssh/sshd_config.d/90-unikorn-trusted-user-ca.conf
  owner: root:root
  permissions: '0644'
  content: {trust}
runcmd:
- [sh, -c, \"systemctl reload ssh || systemctl reload sshd || service ssh reload || service sshd reload || true\"]
"
    )
}

/// Text travels as it is, so that it can be read in the cloud's own tools; anything else in base64.
fn part(media_type: &str, name: Option<&str>, body: &[u8]) -> Vec<u8> {
    let is_text = std::str::from_utf8(body).is_ok_and(|text| !text.contains('\0'));
    let encoding = if is_text { "8bit" } else { "base64" };
    let disposition = name.map(|name| format!("Content-Disposition: attachment; filename=\"{name}\"\n"));
    let headers = format!(
        "Content-Type: {media_type}; charset=\"utf-8\"\nMIME-Version: 1.0\nContent-Transfer-Encoding: {encoding}\n{}\n",
        disposition.unwrap_or_default()
    );
    let mut part = headers.into_bytes();
    if is_text {
        part.extend_from_slice(body);
    } else {
        part.extend_from_slice(STANDARD.encode(body).as_bytes());
    }
    part
}

fn message(mut parts: Vec<Vec<u8>>, managed: Vec<u8>) -> Vec<u8> {
    parts.push(managed);
    let boundary = boundary_between(&parts);
    let head = format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\n");
    let mut bytes = head.into_bytes();
    for part in parts {
        bytes.extend_from_slice(format!("\n--{boundary}\n").as_bytes());
        bytes.extend_from_slice(&part);
    }
    bytes.extend_from_slice(format!("\n--{boundary}--\n").as_bytes());
    bytes
}

/// A text that is in none of the parts: nobody can write down the hash of what they are writing. As long as the
/// standard allows.
fn boundary_between(parts: &[Vec<u8>]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().iter().fold(String::from("regent"), |text, byte| text + &format!("{byte:02x}"))
}

/// The parts of a MIME message; `None` when it is not one, or not a whole one.
fn multipart(data: &[u8]) -> Option<Vec<&[u8]>> {
    let (headers, body) = headers(data)?;
    let (_, value) = headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"))?;
    let boundary = boundary(&value)?;
    let parts = split(body, boundary.as_bytes())?;
    let whole = !parts.is_empty() && parts.iter().all(|part| self::headers(part).is_some());
    whole.then_some(parts)
}

type Headers = Vec<(String, String)>;

/// Header lines, unfolded, and what follows the empty line.
fn headers(data: &[u8]) -> Option<(Headers, &[u8])> {
    let mut headers = Headers::new();
    let mut rest = data;
    loop {
        let (line, after) = next_line(rest)?;
        rest = after;
        let line = std::str::from_utf8(line).ok()?;
        if line.is_empty() {
            return Some((headers, rest));
        }
        if line.starts_with([' ', '\t']) {
            let (_, value) = headers.last_mut()?;
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let (name, value) = line.split_once(':')?;
        let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return None;
        }
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

/// A line without its end, and what follows; `None` when nothing is left.
fn next_line(data: &[u8]) -> Option<(&[u8], &[u8])> {
    if data.is_empty() {
        return None;
    }
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let line = &data[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), data.get(end + 1..).unwrap_or_default()))
}

/// The boundary of a `multipart/…` media type.
fn boundary(content_type: &str) -> Option<String> {
    let mut is_quoted = false;
    // A semicolon inside quotes ends nothing.
    let is_end = |letter: char| {
        is_quoted ^= letter == '"';
        letter == ';' && !is_quoted
    };
    let mut fields = content_type.split(is_end).map(str::trim);
    let media_type = fields.next()?.to_ascii_lowercase();
    media_type.strip_prefix("multipart/").filter(|subtype| !subtype.is_empty())?;
    let named = |field: &str| {
        let (name, value) = field.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
    };
    // No longer than the standard allows.
    fields.find_map(named).filter(|boundary| (1..=70).contains(&boundary.len()))
}

/// What lies between the delimiter lines; `None` without the closing one.
fn split<'a>(body: &'a [u8], boundary: &[u8]) -> Option<Vec<&'a [u8]>> {
    let mut parts = Vec::new();
    let mut began: Option<usize> = None;
    let mut rest = body;
    while let Some((line, after)) = next_line(rest) {
        let tail = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary)).map(<[u8]>::trim_ascii_end);
        if let Some(tail @ (b"" | b"--")) = tail {
            let at = body.len() - rest.len();
            if let Some(began) = began {
                parts.push(without_line_end(&body[began..at]));
            }
            if tail == b"--" {
                return Some(parts);
            }
            began = Some(body.len() - after.len());
        }
        rest = after;
    }
    None
}

/// The line end before a delimiter belongs to the delimiter.
fn without_line_end(part: &[u8]) -> &[u8] {
    let part = part.strip_suffix(b"\n").unwrap_or(part);
    part.strip_suffix(b"\r").unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "ssh-ed25519 AAAA ca@example: \"x\" #y";
    const MIME: &str = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n boundary=\"b1\"\r\n\r\npreamble\r\n--b1\r\n\
        Content-Type: text/cloud-config\r\n\r\npackages: []\r\n--b1\r\nContent-Type: text/x-shellscript\r\n\r\n#!/bin/sh\r\n\
        --b1--\r\n";

    fn text(bytes: Option<Vec<u8>>) -> String {
        String::from_utf8(bytes.expect("something")).expect("text")
    }

    #[test]
    fn b47_data_is_recognised_by_its_longest_prefix() {
        let table = [
            ("#cloud-config\n", "text/cloud-config"),
            ("#cloud-config-archive\n", "text/cloud-config-archive"),
            ("#!/bin/sh\n", "text/x-shellscript"),
            ("#cloud-boothook\n", "text/cloud-boothook"),
            ("#include\nhttps://example.org\n", "text/x-include-url"),
            ("#part-handler\n", "text/part-handler"),
            ("## template: jinja\n#cloud-config\n", "text/jinja2"),
        ];
        for (data, media_type) in table {
            assert_eq!(recognise(data.as_bytes()), Some(Form::Single(media_type)), "{data}");
        }
        assert_eq!(recognise(&[0x1f, 0x8b, 8]), Some(Form::Gzip));
        for bad in ["hello", "\n#cloud-config", "# cloud-config", "{}"] {
            assert_eq!(recognise(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_mime_message_is_recognised_only_when_it_is_whole() {
        let Some(Form::Multipart(parts)) = recognise(MIME.as_bytes()) else { panic!("not recognised") };
        assert_eq!(parts.len(), 2);
        assert!(parts[0].ends_with(b"packages: []"), "{:?}", parts[0]);
        let odd = MIME.replace("b1", "b;1=");
        assert!(matches!(recognise(odd.as_bytes()), Some(Form::Multipart(parts)) if parts.len() == 2), "{odd}");
        for bad in [
            MIME.replace("--b1--\r\n", ""),
            MIME.replace(" boundary=\"b1\"", " x=y"),
            MIME.replace("multipart/mixed", "text/plain"),
            MIME.replace("Content-Type: text/x-shellscript\r\n\r\n", ""),
            "Content-Type: multipart/mixed; boundary=b\n\n--b--\n".to_owned(),
        ] {
            assert_eq!(recognise(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn without_an_authority_nothing_is_touched() {
        assert_eq!(merged(None, None), None);
        assert_eq!(merged(Some(b""), None), None);
        assert_eq!(merged(Some(b"\x1f\x8b\0"), None), Some(b"\x1f\x8b\0".to_vec()));
    }

    #[test]
    fn an_authority_alone_is_a_plain_configuration() {
        let alone = text(merged(None, Some(KEY)));
        assert!(alone.starts_with("#cloud-config\n"), "{alone}");
        assert!(alone.contains(r#"content: "ssh-ed25519 AAAA ca@example: \"x\" #y\n""#), "{alone}");
        assert_eq!(merged(Some(b""), Some(KEY)), Some(alone.into_bytes()));
    }

    #[test]
    fn the_users_parts_come_first_and_the_managed_one_last() {
        let single = text(merged(Some(b"#!/bin/sh\necho hello"), Some(KEY)));
        let Some(Form::Multipart(parts)) = recognise(single.as_bytes()) else { panic!("{single}") };
        assert_eq!(parts.len(), 2);
        assert!(parts[0].ends_with(b"#!/bin/sh\necho hello"), "{single}");
        assert!(single.contains(MANAGED_PART_NAME), "{single}");
        let several = text(merged(Some(MIME.as_bytes()), Some(KEY)));
        let Some(Form::Multipart(parts)) = recognise(several.as_bytes()) else { panic!("{several}") };
        assert_eq!(parts.len(), 3);
        assert!(parts[1].ends_with(b"#!/bin/sh"), "{several}");
        let managed = text(merged(None, Some(KEY)));
        assert!(parts[2].ends_with(managed.as_bytes()), "{several}");
    }

    #[test]
    fn data_that_is_not_text_survives() {
        let data = b"#!/bin/sh\n\xff\0";
        let wrapped = text(merged(Some(data), Some(KEY)));
        assert!(wrapped.contains(&STANDARD.encode(data)), "{wrapped}");
    }

    #[test]
    fn what_a_guest_cannot_be_started_with_is_refused() {
        assert_eq!(validate(b"", Some(KEY)), Ok(()));
        assert_eq!(validate(b"hello", None), Err(InvalidUserData::Unrecognised));
        assert_eq!(validate(b"\x1f\x8b", None), Ok(()));
        assert_eq!(validate(b"\x1f\x8b", Some(KEY)), Err(InvalidUserData::Compressed));
        let mut long = b"#!".to_vec();
        long.resize(USER_DATA_LEN_MAX / 4 * 3, b' ');
        assert_eq!(validate(&long, None), Ok(()));
        assert_eq!(validate(&long, Some(KEY)), Err(InvalidUserData::TooLong), "what is added counts");
        long.extend_from_slice(b"   ");
        assert_eq!(validate(&long, None), Err(InvalidUserData::TooLong));
        assert_eq!(validate(&vec![b' '; USER_DATA_LEN_MAX], None), Err(InvalidUserData::TooLong), "whatever it is");
    }

    #[test]
    fn other_parts_have_another_boundary() {
        let boundary = boundary_between(&[b"a".to_vec()]);
        assert!(boundary.len() == 70 && boundary.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{boundary}");
        assert_ne!(boundary, boundary_between(&[b"b".to_vec()]));
    }

    proptest! {
        /// Whatever a user sends: the merged message is whole, begins with the user's bytes as a part, and is the same
        /// each time.
        #[test]
        fn a_merged_message_holds_the_users_bytes_whatever_they_are(tail in "(?s)[ -~\n=]{0,200}(\n--regent[0-9a-f]{64})?") {
            let data = format!("#!/bin/sh\n{tail}");
            let wrapped = merged(Some(data.as_bytes()), Some(KEY)).expect("something");
            prop_assert_eq!(merged(Some(data.as_bytes()), Some(KEY)), Some(wrapped.clone()));
            let Some(Form::Multipart(parts)) = recognise(&wrapped) else { panic!("not whole") };
            prop_assert_eq!(parts.len(), 2);
            prop_assert!(parts[0].ends_with(data.as_bytes()));
        }
    }
}
