//! Detection of secrets. Results contain settings, variables and hosts as given, but must not contain secrets.

const NAMES: [&str; 16] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "PAT",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "COOKIE",
    "AUTHORIZATION",
    "AUTH",
    "BEARER",
];
const PAIRS: [&str; 3] = ["API_KEY", "ACCESS_KEY", "PRIVATE_KEY"];
/// Endings of names whose values are paths, not secrets.
const PLACES: [&str; 3] = ["_FILE", "_PATH", "_DIR"];

/// Reason that a value looks like a secret, which results must not record; `None` if it does not.
pub fn secret(name: &str, value: &str) -> Option<String> {
    if !value.is_empty() && is_secret(name) {
        return Some(format!("results would record it, and {name} looks like a secret"));
    }
    // Also in queries: `http://host/?token=x`.
    let named = value.split(['?', '&', ';', ',', ' ']).filter_map(|part| part.split_once('='));
    if let Some((within, _)) = named.into_iter().find(|(name, value)| !value.is_empty() && is_secret(name)) {
        return Some(format!("results would record it, and '{within}' in {name} looks like a secret"));
    }
    has_password(value).then(|| format!("results would record it, and {name} has a user with a password"))
}

fn is_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase().replace(['-', '.'], "_");
    // PWD alone is the working folder.
    let is_place = PLACES.iter().any(|end| upper.ends_with(end)) || upper == "PWD" || upper == "OLDPWD";
    let has_word = upper.split('_').any(|word| NAMES.contains(&word));
    !is_place && (has_word || PAIRS.iter().any(|pair| upper.contains(pair)))
}

/// True if a text contains an address with a password: `USER:PASSWORD@HOST`, `tcp/USER:PASSWORD@HOST` or in a URL.
///
/// # Source
/// RFC 3986, 3.2: the authority ends before the next `/`, `?` or `#`.
pub fn has_password(text: &str) -> bool {
    let words = text.split([' ', '\t', '\n', ',', ';', '"', '\'']);
    words.flat_map(authorities).any(|authority| {
        authority
            .rsplit_once('@')
            .is_some_and(|(user, host)| user.contains(':') && !user.ends_with(':') && !host.is_empty())
    })
}

/// Candidates for the authority in a word: that of a URL, or else an address with or without a protocol before it.
fn authorities(word: &str) -> impl Iterator<Item = &str> {
    let (rest, most) = word.split_once("://").map_or((word, 2), |(_, rest)| (rest, 1));
    rest.split(['/', '?', '#']).take(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_secrets_are_known() {
        for name in [
            "DB_PASSWORD",
            "github_token",
            "aws-secret-access-key",
            "tls_private_key",
            "x-api-key",
            "DB_PASS",
            "GITHUB_PAT",
        ] {
            assert!(secret(name, "hunter2").is_some_and(|why| why.contains(name)), "{name}");
            assert_eq!(secret(name, ""), None, "{name}");
        }
        for name in [
            "packet",
            "keepalive",
            "password_file",
            "TOKEN_PATH",
            "ROS_DOMAIN_ID",
            "TOKENIZERS_PARALLELISM",
            "SECRETARY",
            "PWD",
        ] {
            assert_eq!(secret(name, "1"), None, "{name}");
        }
        for value in [
            "http://me:hunter2@proxy:80",
            "a=1 mqtt://me:hunter2@host/x",
            "me:hunter2@host",
            "x://:p@h",
            "localhost:1883,me:hunter2@host:1883",
            "tcp/me:hunter2@host:7447",
            "x=me:hunter2@host http://proxy",
            "http://host/?user=me&password=hunter2",
        ] {
            assert!(secret("proxy", value).is_some(), "{value}");
            assert!(!secret("proxy", value).is_some_and(|why| why.contains("hunter2")), "{value}");
        }
        for value in
            ["http://proxy:80/a:b@c", "me@host", "10.0.0.1:80", "tcp/[::1]:7447", "fifo:17", "http://me@host", ""]
        {
            assert_eq!(secret("proxy", value), None, "{value}");
        }
    }
}
