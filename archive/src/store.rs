//! Place of an archive: a folder, or a bucket of an S3-compatible store.

use crate::error::{ArchiveError, Result};
use crate::layout::{PUSH, Table, partition};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use futures::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tripmeter_model::exit;
use url::Url;

/// File that marks a folder as an archive; it holds the version of the layout.
const MARKER: &str = "tripmeter-archive.json";
/// Content of [`MARKER`]; an archive with another layout is refused.
const LAYOUT: &str = "{\"layout\": 2}\n";
/// Limits of the retries when a store does not answer: their number, and the total time.
const MOST_RETRIES: usize = 3;
const LONGEST_RETRYING: Duration = Duration::from_secs(20);

/// An archive, or the place of one.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Name as the user typed it.
    pub name: String,
    /// Store of its files.
    pub store: Arc<dyn ObjectStore>,
    /// Its root, for DataFusion; ends with `/`.
    pub url: Url,
    root: Path,
}

impl Archive {
    /// Opens the archive at a folder or `s3://BUCKET[/PREFIX]`.
    ///
    /// # Errors
    /// If the name is wrong, or there is no archive.
    pub async fn open(dest: &str) -> Result<Self> {
        let archive = Self::at(dest)?;
        if archive.has_layout().await? {
            return Ok(archive);
        }
        // A missing bucket is reported as such.
        archive.first().await?;
        let text = format!("'{dest}' holds no archive; create one with `tripmeter-archive push RESULTS {dest}`");
        Err(ArchiveError::new(exit::NO_INPUT, text))
    }

    /// Opens an archive; creates it if the folder is empty or missing.
    ///
    /// # Errors
    /// If the name is wrong, or the place cannot be written or holds other files.
    pub async fn open_or_make(dest: &str) -> Result<Self> {
        if !dest.contains("://") {
            let failed =
                |error| ArchiveError::new(exit::CANNOT_CREATE, format!("the folder '{dest}' cannot be made: {error}"));
            std::fs::create_dir_all(dest).map_err(failed)?;
        }
        let archive = Self::at(dest)?;
        if archive.has_layout().await? {
            return Ok(archive);
        }
        // Another push may be creating it right now.
        if let Some(first) = archive.first().await?.filter(|first| first.location != archive.path(MARKER)) {
            if archive.has_layout().await? {
                return Ok(archive);
            }
            let text = format!("'{dest}' is not an archive, and not empty: it holds '{}'", first.location);
            return Err(ArchiveError::new(exit::CANNOT_CREATE, text));
        }
        let put = archive.store.put(&archive.path(MARKER), LAYOUT.into()).await;
        put.map_err(|error| archive.unwritable(error))?;
        Ok(archive)
    }

    /// Any file of the archive.
    async fn first(&self) -> Result<Option<ObjectMeta>> {
        self.store.list(Some(&self.root)).try_next().await.map_err(|error| self.unreadable(error))
    }

    /// True if the marker exists.
    ///
    /// # Errors
    /// If its layout is another one, or it cannot be read.
    async fn has_layout(&self) -> Result<bool> {
        let found = match self.store.get(&self.path(MARKER)).await {
            Ok(found) => found.bytes().await.map_err(|error| self.unreadable(error))?,
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(self.unreadable(error)),
        };
        if found == LAYOUT.as_bytes() {
            return Ok(true);
        }
        let found = String::from_utf8_lossy(&found[..found.len().min(100)]).trim().to_owned();
        let text = format!(
            "'{}' has another layout ({found}), this program reads {}; push the results to a new archive",
            self.name,
            LAYOUT.trim()
        );
        Err(ArchiveError::new(exit::DATA, text))
    }

    fn at(dest: &str) -> Result<Self> {
        let wrong = |why: String| ArchiveError::new(exit::USAGE, format!("'{dest}' is not an archive: {why}"));
        let name = dest.to_owned();
        if !dest.contains("://") {
            let folder = std::path::Path::new(dest).canonicalize().map_err(|error| {
                ArchiveError::new(exit::NO_INPUT, format!("the folder '{dest}' cannot be read: {error}"))
            })?;
            let url = Url::from_directory_path(&folder).map_err(|()| wrong("its path is not absolute".to_owned()))?;
            let root = Path::from_absolute_path(&folder).map_err(|error| wrong(error.to_string()))?;
            return Ok(Self { name, store: Arc::new(LocalFileSystem::new()), url, root });
        }
        let url = Url::parse(&format!("{}/", dest.trim_end_matches('/'))).map_err(|error| wrong(error.to_string()))?;
        let bucket = url.host_str().filter(|_| url.scheme() == "s3");
        let bucket = bucket.ok_or_else(|| wrong("name a folder, or s3://BUCKET/PREFIX".to_owned()))?;
        let store = s3(bucket).map_err(|error| wrong(error.to_string()))?;
        let root = Path::from_url_path(url.path()).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { name, store, root, url })
    }

    /// Full path of a file in the archive.
    pub fn path(&self, relative: &str) -> Path {
        self.root.parts().chain(Path::from(relative).parts()).collect()
    }

    /// Run and push of each row in the table of runs, for one date or all.
    ///
    /// # Errors
    /// If the store does not list them.
    pub async fn pushes(&self, date: Option<&str>) -> Result<Vec<(String, String)>> {
        let folder = Table::Runs.name();
        let folder = date.map_or(folder.to_owned(), |date| format!("{folder}/date={date}"));
        let files = self.files(&folder).await?;
        let names = files.iter().filter_map(|file| {
            let path = file.location.as_ref();
            Some((partition(path, "run")?.to_owned(), partition(path, PUSH)?.to_owned()))
        });
        Ok(names.collect())
    }

    /// Complete runs, each with its push. If several pushes of a run ended together, the first by name counts.
    ///
    /// # Errors
    /// As [`Archive::pushes`].
    pub async fn whole(&self, date: Option<&str>) -> Result<BTreeMap<String, String>> {
        let mut pushes = self.pushes(date).await?;
        pushes.sort_by(|a, b| b.cmp(a));
        Ok(pushes.into_iter().collect())
    }

    /// Files of the archive below one of its folders, e.g. `samples`.
    ///
    /// # Errors
    /// If the store does not list them.
    pub async fn files(&self, below: &str) -> Result<Vec<ObjectMeta>> {
        let root = self.path(below);
        self.store.list(Some(&root)).try_collect().await.map_err(|error| self.unreadable(error))
    }

    /// Error while reading the archive.
    pub fn unreadable(&self, error: impl Display) -> ArchiveError {
        let (_, advice) = self.kind();
        ArchiveError::failed(format!("'{}' cannot be read{advice}", self.name), error)
    }

    /// Error while writing the archive.
    pub fn unwritable(&self, error: impl Display) -> ArchiveError {
        let what = "cannot be written, and nothing of this run is visible in it: push it again";
        let (code, advice) = self.kind();
        ArchiveError::new(code, format!("'{}' {what}{advice}: {error}", self.name))
    }

    /// Exit code of an archive that cannot be written, and advice for the message.
    fn kind(&self) -> (u8, &'static str) {
        match self.url.scheme() {
            "s3" => (exit::UNAVAILABLE, " (check the bucket, and the AWS_* variables)"),
            _ => (exit::CANNOT_CREATE, ""),
        }
    }
}

/// Opens a bucket; endpoint, region and keys come from the usual `AWS_*` variables.
fn s3(bucket: &str) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig { max_retries: MOST_RETRIES, retry_timeout: LONGEST_RETRYING, ..RetryConfig::default() };
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    // An endpoint that begins with http:// asks for no TLS.
    let endpoints =
        [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint].map(|key| builder.get_config_value(&key));
    let is_plain = endpoints.into_iter().flatten().any(|endpoint| endpoint.starts_with("http://"));
    let builder = if is_plain { builder.with_allow_http(true) } else { builder };
    Ok(Arc::new(builder.build()?))
}

/// Finds the store of a URL for DataFusion: files, and buckets with the settings of [`s3`].
#[derive(Debug, Default)]
pub struct Stores(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        if let (Err(_), "s3", Some(bucket)) = (self.0.get_store(url), url.scheme(), url.host_str()) {
            self.0.register_store(url, s3(bucket)?);
        }
        self.0.get_store(url)
    }
}
