//! What signs certificates of nodes: a key in a folder, made where there is none. Whoever has
//! the key can be every node, so a key that there is is never overwritten or removed.

use super::files;
use super::own::{Identity, IdentityError, certificates};
use super::party::Party;
use super::token::{Fingerprint, SECRET_BYTES, Token};
use super::tokens::{TokenError, Tokens};
use crate::name::NodeName;
use crate::random;
use crate::secret::{ProbeKey, Prover, Secret};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType,
};
use rhythm_net::files::{NotPrivate, open_private, open_regular};
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// Its files; behind the name of one that is not finished stands [`UNFINISHED`].
const KEY: &str = "key.pem";
const CERTIFICATE: &str = "authority.pem";
const UNFINISHED: &str = "new";
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
    #[error(
        "{0}: {1}; restore the authority's key.pem and authority.pem, or remove its folder, and \
         have all nodes join again"
    )]
    Damaged(PathBuf, String),
    /// There is none.
    #[error(
        "{0}: no authority is there. Monitors that are spares of each other have one and the same: \
         make it once, by `rhythm venice token --create --authority DIR --name NODE` on one \
         machine, and copy its key.pem and authority.pem to the others"
    )]
    Missing(PathBuf),
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
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pem: String,
    fingerprint: Fingerprint,
    folder: PathBuf,
    tokens: Tokens,
    probe_key: ProbeKey,
}

impl Authority {
    /// The authority of a folder; it is made where there is none.
    ///
    /// # Errors
    /// Its files cannot be made, or used.
    pub fn open(folder: &Path) -> Result<Authority, AuthorityError> {
        let opened = files::as_owner(folder, || {
            complete(folder)?;
            Authority::read(folder)
        });
        opened.map_err(|error| AuthorityError::System(folder.to_owned(), error))?
    }

    /// Whether there is one in a folder, perhaps not finished.
    pub fn is_in(folder: &Path) -> bool {
        [KEY, CERTIFICATE]
            .iter()
            .any(|name| folder.join(name).exists())
    }

    /// The authority of a folder, where one is: of several monitors each has the same.
    ///
    /// # Errors
    /// There is none, or its files cannot be used.
    pub fn existing(folder: &Path) -> Result<Authority, AuthorityError> {
        if !folder.join(CERTIFICATE).exists() {
            return Err(AuthorityError::Missing(folder.to_owned()));
        }
        let opened = files::as_owner(folder, || Authority::read(folder));
        opened.map_err(|error| AuthorityError::System(folder.to_owned(), error))?
    }

    fn read(folder: &Path) -> Result<Authority, AuthorityError> {
        let (key_path, pem_path) = (folder.join(KEY), folder.join(CERTIFICATE));
        let key = key(&key_path)?;
        let (pem, der) = certificate(&pem_path)?;
        if !is_of(&der, &key) {
            let why = format!("the key in {} is not its own", key_path.display());
            return Err(AuthorityError::Damaged(pem_path, why));
        }
        let of_key = Secret::of(&key.serialize_der());
        let probe_key = ProbeKey(of_key.prove(Prover::Probe, &[b"probe key"]));
        let issuer = Issuer::from_ca_cert_pem(&pem, key);
        let issuer = issuer.map_err(|error| damaged(&pem_path, error))?;
        Ok(Authority {
            issuer,
            fingerprint: Fingerprint::of(&der),
            pem,
            folder: folder.to_owned(),
            tokens: Tokens::new(folder.join("tokens")),
            probe_key,
        })
    }

    /// What names it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What nodes prove datagrams of link tests by: the same for all who have the authority's key.
    pub(crate) fn probe_key(&self) -> ProbeKey {
        self.probe_key
    }

    /// A new token for a node of this name, good for so long.
    ///
    /// # Errors
    /// It cannot be noted.
    pub fn give_token(&self, node: &NodeName, valid: Duration) -> Result<Token, AuthorityError> {
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(&random::numbers()[..SECRET_BYTES]);
        let noted = files::as_owner(&self.folder, || {
            self.tokens.add(&secret, node, valid, now())
        });
        noted.flatten().map_err(TokenError::System)?;
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

// Nothing of its keys is shown.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({}, ..)", self.fingerprint)
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

fn damaged(path: &Path, why: impl Display) -> AuthorityError {
    AuthorityError::Damaged(path.to_owned(), why.to_string())
}

/// Makes what is not in a folder yet. The certificate comes last: where it is there, all is.
fn complete(folder: &Path) -> Result<(), AuthorityError> {
    let failed = |path: &Path, error| AuthorityError::System(path.to_owned(), error);
    files::folder(folder).map_err(|error| failed(folder, error))?;
    // Two that begin at a time are to have one key.
    let lock = File::open(folder).and_then(|lock| lock.lock().map(|()| lock));
    let _lock = lock.map_err(|error| failed(folder, error))?;
    let (key_path, pem_path) = (folder.join(KEY), folder.join(CERTIFICATE));
    let [new_key, new_pem] = [&key_path, &pem_path].map(|path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(UNFINISHED);
        PathBuf::from(name)
    });
    if is_there(&pem_path)? {
        return Ok(());
    }
    if is_there(&key_path)? {
        // Either it ended between both, or the certificate was lost.
        let is_its = certificate(&new_pem)
            .is_ok_and(|(_, der)| key(&key_path).is_ok_and(|key| is_of(&der, &key)));
        if !is_its {
            let why = format!("it is not there, and its key is ({})", key_path.display());
            return Err(damaged(&pem_path, why));
        }
    } else {
        let (key, pem) = make().map_err(AuthorityError::Certificate)?;
        for (path, mode, text) in [(&new_key, 0o600, key), (&new_pem, 0o644, pem)] {
            match fs::remove_file(path) {
                // Of one that was never finished nobody has heard.
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(path, error)),
            }
            files::write_new(path, mode, &text).map_err(|error| failed(path, error))?;
        }
        let renamed = fs::rename(&new_key, &key_path).and_then(|()| files::sync_above(&key_path));
        renamed.map_err(|error| failed(&key_path, error))?;
    }
    let renamed = fs::rename(&new_pem, &pem_path).and_then(|()| files::sync_above(&pem_path));
    renamed.map_err(|error| failed(&pem_path, error))
}

/// Whether there is something of this name, be it a link that leads nowhere.
fn is_there(path: &Path) -> Result<bool, AuthorityError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(AuthorityError::System(path.to_owned(), error)),
    }
}

/// Whether a certificate, in DER, is of this key.
fn is_of(certificate: &[u8], key: &KeyPair) -> bool {
    x509_parser::parse_x509_certificate(certificate)
        .is_ok_and(|(_, parsed)| parsed.public_key().raw == key.subject_public_key_info())
}

/// The certificate in a file, as PEM and in DER.
fn certificate(path: &Path) -> Result<(String, Vec<u8>), AuthorityError> {
    let system = |error| AuthorityError::System(path.to_owned(), error);
    let mut pem = String::new();
    let file = open_regular(path).map_err(system)?;
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut pem)
        .map_err(system)?;
    let der = certificates(&pem).ok_or_else(|| damaged(path, "it is no certificate"))?;
    let der = der[0].to_vec();
    Ok((pem, der))
}

/// The key in a file that nobody else reads.
fn key(path: &Path) -> Result<KeyPair, AuthorityError> {
    let system = |error| AuthorityError::System(path.to_owned(), error);
    let file = open_private(path).map_err(|error| match error {
        NotPrivate::System(error) if error.kind() == ErrorKind::NotFound => {
            damaged(path, "it is not there, and its certificate is")
        }
        NotPrivate::System(error) => system(error),
        NotPrivate::Shared => AuthorityError::Readable(path.to_owned()),
    })?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(system)?;
    KeyPair::from_pem(&text).map_err(|error| damaged(path, error))
}
