//! Addresses, networks and URLs.

use alloc::string::String;
use core::net::IpAddr;

/// Whether a text is a URL, or an absolute path.
pub(super) fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return text.starts_with('/') };
    let first = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let all = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    first
        && all
        && !rest.is_empty()
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// An address and the bits of its network.
pub(super) fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u8 = if plain { bits.parse().ok()? } else { return None };
    (bits <= most && (bits == 0 || !text.contains("/0"))).then_some((ip, bits))
}

/// The first bits of an address, as a number of 128 bits from the left.
fn network(ip: IpAddr, bits: u8) -> u128 {
    let all = match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    if bits == 0 { 0 } else { all >> (128 - u32::from(bits)) }
}

/// Whether an address is in a network.
pub(super) fn within(ip: IpAddr, of: IpAddr, bits: u8) -> bool {
    ip.is_ipv4() == of.is_ipv4() && network(ip, bits) == network(of, bits)
}
/// A part of a URL.
pub(super) fn of_url(name: &str, url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = if scheme.is_empty() { 0 } else { rest.find(['/', '?', '#']).unwrap_or(rest.len()) };
    let (host, path) = rest.split_at(end);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let (name_of, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    };
    Some(match name {
        "getScheme" => scheme.into(),
        "getHost" => host.into(),
        "getHostname" => name_of.trim_matches(['[', ']']).into(),
        "getPort" => port.into(),
        "getEscapedPath" => path.split(['?', '#']).next().unwrap_or("").into(),
        _ => return None,
    })
}
