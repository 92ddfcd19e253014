//! Tokens signed here, where there is no API server: JSON Web Tokens as an API server makes them, with the claims that
//! verifiers of service account tokens look at.
//!
//! Whoever is shown a token checks it with [`LocalIssuer::key_set`].

use super::{EXPIRATION_SECONDS, Error, Provider, Request, Token};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What comes before the point of a P-256 key in its usual form, SubjectPublicKeyInfo (RFC 5480).
const PUBLIC_KEY_HEADER: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Why a key cannot sign tokens. The texts tell nothing of the key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no private key in the text.
    #[error("read the signing key: there is no \"-----BEGIN PRIVATE KEY-----\" block (PKCS#8)")]
    NoBlock,
    /// The block is not base64.
    #[error("read the signing key: its block is not base64")]
    NotBase64,
    /// It is not a key that we sign with.
    #[error("read the signing key: it is no ECDSA P-256 key in PKCS#8 ({reason})")]
    Rejected {
        /// Why, in a few words.
        reason: String,
    },
}

/// Signs tokens with a key of its own (ES256).
pub struct LocalIssuer {
    issuer: String,
    audience: String,
    key: EcdsaKeyPair,
    key_id: String,
    random: SystemRandom,
}

impl fmt::Debug for LocalIssuer {
    /// Without the key (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer, audience, key: _, key_id, random: _ } = self;
        f.debug_struct("LocalIssuer")
            .field("issuer", issuer)
            .field("audience", audience)
            .field("key_id", key_id)
            .finish_non_exhaustive()
    }
}

impl LocalIssuer {
    /// An issuer that calls itself `issuer`, usually a URL. Tokens that are asked for without an audience are for
    /// `audience`. The key is an ECDSA P-256 key as PKCS#8 in PEM, as `openssl genpkey -algorithm EC -pkeyopt
    /// ec_paramgen_curve:P-256` makes it.
    pub fn new(issuer: &str, audience: &str, key: &str) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &block(key)?, &random)
            .map_err(|it| KeyError::Rejected { reason: it.to_string() })?;
        // As an API server names its keys: by the hash of the public one.
        let mut public = PUBLIC_KEY_HEADER.to_vec();
        public.extend(key.public_key().as_ref());
        let key_id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &public));
        Ok(Self { issuer: issuer.into(), audience: audience.into(), key, key_id, random })
    }

    /// The public key as a JSON Web Key Set, for those who check tokens.
    pub fn key_set(&self) -> String {
        // A point is a byte that says how it is written, and its two coordinates of the same length.
        let point = self.key.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len() / 2);
        json!({"keys": [{
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x),
            "y": URL_SAFE_NO_PAD.encode(y),
        }]})
        .to_string()
    }

    /// A name that no other token has.
    fn token_id(&self) -> Result<String, ring::error::Unspecified> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes)?;
        // A UUID of random bytes (RFC 9562, version 4).
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
        Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
    }

    fn sign(&self, header: &serde_json::Value, claims: &serde_json::Value) -> Result<String, ring::error::Unspecified> {
        let encode = |it: &serde_json::Value| URL_SAFE_NO_PAD.encode(it.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.key.sign(&self.random, signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl Provider for LocalIssuer {
    fn token(&self, request: &Request, now: SystemTime) -> Result<Token, Error> {
        let Request { namespace, service_account, audiences, expiration_seconds, pod_name, pod_uid } = request;
        if !EXPIRATION_SECONDS.contains(expiration_seconds) {
            return Err(Error::Life { seconds: *expiration_seconds });
        }
        // What admission puts into a pod that names none.
        let service_account = if service_account.is_empty() { "default" } else { service_account };
        let failed = |_| Error::Sign { namespace: namespace.clone(), service_account: service_account.to_owned() };
        // Claims are whole seconds, and what is said of a token should be what stands in it.
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let end = seconds.saturating_add(expiration_seconds.unsigned_abs());
        let audiences = if audiences.is_empty() { std::slice::from_ref(&self.audience) } else { audiences };
        let claims = json!({
            "iss": self.issuer,
            "sub": format!("system:serviceaccount:{namespace}:{service_account}"),
            "aud": audiences,
            "iat": seconds,
            "nbf": seconds,
            "exp": end,
            "jti": self.token_id().map_err(failed)?,
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": service_account},
                "pod": {"name": pod_name, "uid": pod_uid.as_str()},
            },
        });
        let text = self.sign(&json!({"alg": "ES256", "kid": self.key_id}), &claims).map_err(failed)?;
        let at = |it| UNIX_EPOCH.checked_add(Duration::from_secs(it)).unwrap_or(now);
        Ok(Token::new(&text, at(seconds), at(end)))
    }
}

/// The bytes of the first private key in PEM.
fn block(text: &str) -> Result<Vec<u8>, KeyError> {
    let rest = text.split_once("-----BEGIN PRIVATE KEY-----").ok_or(KeyError::NoBlock)?.1;
    let body = rest.split_once("-----END PRIVATE KEY-----").ok_or(KeyError::NoBlock)?.0;
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).map_err(|_| KeyError::NotBase64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use serde_json::Value;

    fn pem() -> String {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let text = STANDARD.encode(key);
        let lines: Vec<&str> = text.as_bytes().chunks(64).map(|it| std::str::from_utf8(it).unwrap()).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }

    fn issuer() -> LocalIssuer {
        LocalIssuer::new("https://node-1.example", "https://api.example", &pem()).unwrap()
    }

    fn request() -> Request {
        Request {
            namespace: "shop".into(),
            service_account: "robot".into(),
            audiences: vec!["vault".into()],
            expiration_seconds: 600,
            pod_name: "web".into(),
            pod_uid: "uid-1".into(),
        }
    }

    fn noon() -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_800_000_000_500)
    }

    fn decoded(part: &str) -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    /// Header and claims of a token whose signature was checked with nothing but the published key.
    fn verified(token: &Token, key_set: &str) -> (Value, Value) {
        let set: Value = serde_json::from_str(key_set).unwrap();
        let key = &set["keys"][0];
        let mut point = vec![4];
        for coordinate in ["x", "y"] {
            point.extend(URL_SAFE_NO_PAD.decode(key[coordinate].as_str().unwrap()).unwrap());
        }
        let (signed, signature) = token.text().rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed.as_bytes(), &signature).unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        assert_eq!(decoded(header)["kid"], key["kid"]);
        (decoded(header), decoded(claims))
    }

    #[test]
    fn a_token_can_be_checked_with_the_published_key() {
        let issuer = issuer();
        let token = issuer.token(&request(), noon()).unwrap();
        let (header, mut claims) = verified(&token, &issuer.key_set());
        assert_eq!(header["alg"], "ES256");
        let id = claims["jti"].take();
        assert_eq!(id.as_str().unwrap().len(), 36);
        let expected = json!({
            "iss": "https://node-1.example",
            "sub": "system:serviceaccount:shop:robot",
            "aud": ["vault"],
            "iat": 1_800_000_000,
            "nbf": 1_800_000_000,
            "exp": 1_800_000_600,
            "jti": null,
            "kubernetes.io": {
                "namespace": "shop",
                "serviceaccount": {"name": "robot"},
                "pod": {"name": "web", "uid": "uid-1"},
            },
        });
        assert_eq!(claims, expected);
        assert_eq!(token.issued(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        assert_eq!(token.expires(), UNIX_EPOCH + Duration::from_secs(1_800_000_600));
        let other = issuer.token(&request(), noon()).unwrap();
        assert_ne!(verified(&other, &issuer.key_set()).1["jti"], id, "no two tokens have one name");
    }

    #[test]
    fn a_request_that_leaves_things_out_gets_the_defaults() {
        let issuer = issuer();
        let request = Request { service_account: String::new(), audiences: Vec::new(), ..request() };
        let (_, claims) = verified(&issuer.token(&request, noon()).unwrap(), &issuer.key_set());
        assert_eq!(claims["aud"], json!(["https://api.example"]));
        assert_eq!(claims["sub"], "system:serviceaccount:shop:default");
    }

    /// P-125.
    #[test]
    fn a_life_outside_the_bounds_is_refused() {
        let issuer = issuer();
        let life = |seconds| issuer.token(&Request { expiration_seconds: seconds, ..request() }, noon());
        for seconds in [600, 3600, 1 << 32] {
            assert!(life(seconds).is_ok(), "{seconds}");
        }
        for seconds in [i64::MIN, -1, 0, 599, (1 << 32) + 1, i64::MAX] {
            assert_eq!(life(seconds), Err(Error::Life { seconds }));
        }
    }

    #[test]
    fn what_is_no_key_says_why_and_tells_nothing() {
        let why = |key: &str| LocalIssuer::new("i", "a", key).unwrap_err();
        assert_eq!(why(""), KeyError::NoBlock);
        assert_eq!(why("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----"), KeyError::NoBlock);
        assert_eq!(why("-----BEGIN PRIVATE KEY-----\nAAAA"), KeyError::NoBlock);
        assert_eq!(why("-----BEGIN PRIVATE KEY-----\nä\n-----END PRIVATE KEY-----"), KeyError::NotBase64);
        let error = why("-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----");
        assert!(matches!(error, KeyError::Rejected { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"));
    }

    /// I-12.
    #[test]
    fn what_is_printed_does_not_tell_the_key() {
        let pem = pem();
        let printed = format!("{:?}", LocalIssuer::new("https://node-1.example", "a", &pem).unwrap());
        assert!(printed.contains("https://node-1.example"), "{printed}");
        assert!(pem.lines().all(|it| !printed.contains(it)), "{printed}");
    }
}
