//! What signs certificates of nodes: a key in the monitor's folder, made where there is none.

use super::files;
use super::own::{Identity, IdentityError};
use super::party::Party;
use super::token::{Fingerprint, SECRET_BYTES, Token};
use super::tokens::{TokenError, Tokens};
use crate::name::NodeName;
use crate::random;
use crate::secret::{Nonce, Prover, Secret};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType,
};
use rhythm_net::files::{NotPrivate, open_private};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// For how long an authority's own certificate is good.
const AUTHORITY_DAYS: u32 = 20 * 365;
/// Bytes of a key or a certificate at most.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Why there is no authority, or it does not sign.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file of it.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
    /// Others may read its key.
    #[error("{0}: others than its owner can read the authority's key; say chmod 600 {0}")]
    Readable(PathBuf),
    /// A file of it is not what it should be.
    #[error("{0}: {1}; restore it, or remove the folder, and have all nodes join again")]
    Damaged(PathBuf, String),
    /// The token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// What is to be signed.
    #[error("what the node asks for cannot be signed: {0}")]
    Request(String),
    /// A certificate could not be made, or used.
    #[error("no certificate can be made: {0}")]
    Certificate(String),
}

/// See the head of this file.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pem: String,
    fingerprint: Fingerprint,
    tokens: Tokens,
    probe_key: Nonce,
}

impl Authority {
    /// The authority of a monitor's folder; it is made where there is none.
    ///
    /// # Errors
    /// Its files cannot be made, or used.
    pub fn open(state: &Path) -> Result<Authority, AuthorityError> {
        let folder = state.join("authority");
        let failed = |path: &Path, error| AuthorityError::System(path.to_owned(), error);
        files::folder(state).map_err(|error| failed(state, error))?;
        files::folder(&folder).map_err(|error| failed(&folder, error))?;
        let path = |name: &str| folder.join(name);
        let (key_path, pem_path) = (path("key.pem"), path("authority.pem"));
        // Two that begin at a time are to have one key.
        let lock = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(path("lock"))
            .and_then(|lock| lock.lock().map(|()| lock))
            .map_err(|error| failed(&folder, error))?;
        // The certificate is written last: where it is there, all is.
        if !pem_path.exists() {
            let (key, pem) = make().map_err(AuthorityError::Certificate)?;
            // Of one that was never finished nobody has heard.
            let _ = fs::remove_file(&key_path);
            files::write_new(&key_path, 0o600, &key).map_err(|error| failed(&key_path, error))?;
            files::write_new(&pem_path, 0o644, &pem).map_err(|error| failed(&pem_path, error))?;
        }
        drop(lock);
        let key_text = private(&key_path)?;
        let pem = fs::read_to_string(&pem_path).map_err(|error| failed(&pem_path, error))?;
        let damaged = |path: &Path, error: rcgen::Error| {
            AuthorityError::Damaged(path.to_owned(), error.to_string())
        };
        let key = KeyPair::from_pem(&key_text).map_err(|error| damaged(&key_path, error))?;
        let probe_key = Secret::of(&key.serialize_der()).prove(Prover::Probe, &[b"probe key"]);
        let issuer = Issuer::from_ca_cert_pem(&pem, key);
        let issuer = issuer.map_err(|error| damaged(&pem_path, error))?;
        let der = super::own::certificates(&pem)
            .ok_or_else(|| AuthorityError::Damaged(pem_path, "it is no certificate".to_owned()))?;
        Ok(Authority {
            issuer,
            fingerprint: Fingerprint::of(&der[0]),
            pem,
            tokens: Tokens::new(state.join("tokens")),
            probe_key,
        })
    }

    /// What names it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What nodes prove datagrams of link tests by: the same for all who have the authority's key.
    pub(crate) fn probe_key(&self) -> Nonce {
        self.probe_key
    }

    /// A new token for a node of this name, good for so long.
    ///
    /// # Errors
    /// It cannot be noted.
    pub fn give_token(&self, node: &NodeName, valid: Duration) -> Result<Token, AuthorityError> {
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(&random::numbers()[..SECRET_BYTES]);
        let noted = self.tokens.add(&secret, node, valid, now());
        noted.map_err(TokenError::System)?;
        Ok(Token {
            secret,
            authority: self.fingerprint,
        })
    }

    /// Uses a token for the key that a request (PKCS #10, in DER) is signed with: a certificate
    /// with the token's name, good for so many days, as PEM, and its node. Of the request nothing
    /// else counts.
    ///
    /// # Errors
    /// The token is no good, or the request, which leaves the token unused.
    pub(crate) fn redeem(
        &self,
        secret: &[u8; SECRET_BYTES],
        request: &[u8],
        days: u32,
    ) -> Result<(NodeName, String), AuthorityError> {
        // First the token: what a stranger sends is not looked at further.
        let node = self.tokens.check(secret, now())?;
        let request = CertificateSigningRequestParams::from_der(&request.into());
        let request = request.map_err(|error| AuthorityError::Request(error.to_string()))?;
        self.tokens.take(secret)?;
        let party = Party::Node(node.clone());
        let pem = self.sign(&party, &request.public_key, days)?;
        Ok((node, pem))
    }

    fn sign(
        &self,
        party: &Party,
        key: &impl PublicKeyData,
        days: u32,
    ) -> Result<String, AuthorityError> {
        let wrong = |error: rcgen::Error| AuthorityError::Certificate(error.to_string());
        let mut params = params(&party.to_string(), days);
        let uri = party.uri().try_into().map_err(wrong)?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if *party != Party::Monitor {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        let signed = params.signed_by(key, &self.issuer).map_err(wrong)?;
        Ok(signed.pem())
    }

    /// What a monitor shows: a certificate with a key that is nowhere else, made anew each time.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn monitor(&self) -> Result<Identity, AuthorityError> {
        let wrong = |error: &dyn std::fmt::Display| AuthorityError::Certificate(error.to_string());
        let key = KeyPair::generate().map_err(|error| wrong(&error))?;
        let certificate = self.sign(&Party::Monitor, &key, AUTHORITY_DAYS)?;
        let identity = Identity::of_pem(&certificate, &key.serialize_pem(), &self.pem);
        identity.map_err(|error: IdentityError| wrong(&error))
    }

    /// Its certificate, as PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

/// Since 1970.
fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before that is none.
    since.unwrap_or_default()
}

fn params(name: &str, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = OffsetDateTime::now_utc();
    // Clocks differ.
    params.not_before = now - time::Duration::DAY;
    params.not_after = now + time::Duration::days(days.into());
    params
}

/// A key and its certificate, as PEM.
fn make() -> Result<(String, String), String> {
    let made = || {
        let key = KeyPair::generate()?;
        let mut params = params("rhythm venice authority", AUTHORITY_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?;
        Ok::<_, rcgen::Error>((key.serialize_pem(), certificate.pem()))
    };
    made().map_err(|error| error.to_string())
}

/// The text of a file that nobody else reads.
fn private(path: &Path) -> Result<String, AuthorityError> {
    let system = |error| AuthorityError::System(path.to_owned(), error);
    let file = open_private(path).map_err(|error| match error {
        NotPrivate::System(error) => system(error),
        NotPrivate::Shared => AuthorityError::Readable(path.to_owned()),
    })?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(system)?;
    Ok(text)
}
