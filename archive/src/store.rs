//! Where an archive is: a folder, or a bucket of an S3-compatible store.

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

/// The file that makes a folder an archive; it has the version of the layout.
const MARKER: &str = "tripmeter-archive.json";
/// Written into [`MARKER`]; an archive with another one is refused.
const LAYOUT: &str = "{\"layout\": 2}\n";
/// A request is repeated so often, and for so long, where a store does not answer.
const MOST_RETRIES: usize = 3;
const LONGEST_RETRYING: Duration = Duration::from_secs(20);

/// An archive, or the place of one.
#[derive(Clone, Debug)]
pub struct Archive {
    /// As the user named it.
    pub name: String,
    /// Its files.
    pub store: Arc<dyn ObjectStore>,
    /// Its root, for DataFusion; ends with `/`.
    pub url: Url,
    root: Path,
}

impl Archive {
    /// The archive at a folder or `s3://BUCKET[/PREFIX]`.
    ///
    /// # Errors
    /// If it is no such name, is not there, or holds no archive.
    pub async fn open(dest: &str) -> Result<Self> {
        let archive = Self::at(dest)?;
        if archive.has_layout().await? {
            return Ok(archive);
        }
        // A bucket that is not there is another error.
        archive.first().await?;
        let text = format!("'{dest}' holds no archive; make one by `tripmeter-archive push RESULTS {dest}`");
        Err(ArchiveError::new(exit::NO_INPUT, text))
    }

    /// The same, which is made if the folder is empty or not there.
    ///
    /// # Errors
    /// If it is no such name, cannot be written, or holds something else.
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
        // Another push may make it now.
        if let Some(first) = archive.first().await?.filter(|first| first.location != archive.path(MARKER)) {
            if archive.has_layout().await? {
                return Ok(archive);
            }
            let text = format!("'{dest}' is no archive, and not empty: it holds '{}'", first.location);
            return Err(ArchiveError::new(exit::CANNOT_CREATE, text));
        }
        let put = archive.store.put(&archive.path(MARKER), LAYOUT.into()).await;
        put.map_err(|error| archive.unwritable(error))?;
        Ok(archive)
    }

    /// Any of its files.
    async fn first(&self) -> Result<Option<ObjectMeta>> {
        self.store.list(Some(&self.root)).try_next().await.map_err(|error| self.unreadable(error))
    }

    /// Whether it has a marker.
    ///
    /// # Errors
    /// If it is of another layout, or cannot be read.
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
        let wrong = |why: String| ArchiveError::new(exit::USAGE, format!("'{dest}' is no archive: {why}"));
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

    /// The path of a file in it.
    pub fn path(&self, relative: &str) -> Path {
        self.root.parts().chain(Path::from(relative).parts()).collect()
    }

    /// The run and the push of each row of the table of runs, of one date or of all.
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

    /// Every run that is whole, and its push. Of several pushes, which ended together, the first by name counts.
    ///
    /// # Errors
    /// As [`Archive::pushes`].
    pub async fn whole(&self, date: Option<&str>) -> Result<BTreeMap<String, String>> {
        let mut pushes = self.pushes(date).await?;
        pushes.sort_by(|a, b| b.cmp(a));
        Ok(pushes.into_iter().collect())
    }

    /// All its files below a folder of it, e.g. `samples`.
    ///
    /// # Errors
    /// If the store does not list them.
    pub async fn files(&self, below: &str) -> Result<Vec<ObjectMeta>> {
        let root = self.path(below);
        self.store.list(Some(&root)).try_collect().await.map_err(|error| self.unreadable(error))
    }

    /// That it cannot be read.
    pub fn unreadable(&self, error: impl Display) -> ArchiveError {
        let (_, advice) = self.kind();
        ArchiveError::failed(format!("'{}' cannot be read{advice}", self.name), error)
    }

    /// That it cannot be written.
    pub fn unwritable(&self, error: impl Display) -> ArchiveError {
        let what = "cannot be written, and nothing of this run is visible in it: push it again";
        let (code, advice) = self.kind();
        ArchiveError::new(code, format!("'{}' {what}{advice}: {error}", self.name))
    }

    /// The exit code of an archive that cannot be written, and what to check.
    fn kind(&self) -> (u8, &'static str) {
        match self.url.scheme() {
            "s3" => (exit::UNAVAILABLE, " (check the bucket, and the AWS_* variables)"),
            _ => (exit::CANNOT_CREATE, ""),
        }
    }
}

/// A bucket; endpoint, region and keys come from the usual `AWS_*` variables.
fn s3(bucket: &str) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig { max_retries: MOST_RETRIES, retry_timeout: LONGEST_RETRYING, ..RetryConfig::default() };
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    // Whoever names an endpoint without TLS means it.
    let endpoints =
        [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint].map(|key| builder.get_config_value(&key));
    let is_plain = endpoints.into_iter().flatten().any(|endpoint| endpoint.starts_with("http://"));
    let builder = if is_plain { builder.with_allow_http(true) } else { builder };
    Ok(Arc::new(builder.build()?))
}

/// Finds the stores of DataFusion's URLs: files, and buckets with the settings of [`s3`].
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
