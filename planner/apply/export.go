package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/backends/ledger/payload"
	"salectl/internal/files"
	"salectl/planner"
	"salectl/rules"
	"salectl/units"
)

// DefaultExport returns the default file name of an export.
func DefaultExport(sale, uid string) string { return fmt.Sprintf("%s-%s.ndjson", sale, uid) }

// checkExportPath refuses, before anything is closed, a path that cannot be written or has a
// file that cannot be this sale's export. While shards are unsealed that is any file; later,
// any file that is no export of this run. Whether an export is the same is known only once it
// is made. A file at the manifest's path that is no manifest is refused too.
func checkExportPath(path, uid string, sealed bool) error {
	if err := CheckManifest(path); err != nil {
		return err
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("the ledger cannot be exported: %w", err)
	default:
		defer f.Close()
		var header export.Header
		if err := json.NewDecoder(f).Decode(&header); err != nil || header.UID != uid || !sealed {
			return inTheWay(path)
		}
	}
	temp, err := files.CreateTemp(files.ManifestPath(path)) // in the export's folder, with the longer of the two names
	if err != nil {
		return fmt.Errorf("the ledger cannot be exported: %w", err)
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

func inTheWay(path string) error {
	return &planner.Refusal{
		Reason: fmt.Sprintf("%s exists, and is not the final export of the sale", path),
		Remedy: "Move it away, or name another file with --export.",
	}
}

// Export is the ledger of a sale whose shards are sealed, to be written before its deletion.
type Export struct {
	sale, uid string
	log       *ledger.Sale // own log of the sale, as read
	shards    []*ledger.State
	key       *units.Key // decrypts payloads, which are read again
}

// reader returns a reader of the payloads; nil if units are numbers.
func (e *Export) reader(logs ledger.Logs) *payload.Reader {
	if !hasPayloads(e.log) {
		return nil
	}
	r := payload.NewReader(logs, e.uid, e.key)
	r.Follow(e.log.Added())
	return r
}

// fileExporter returns an Exporter to a file.
func fileExporter(path string) Exporter {
	return func(ctx context.Context, logs ledger.Logs, e *Export) (string, []byte, error) {
		digest, err := exporter{(*os.File).Sync}.write(ctx, logs, path, e)
		return path, digest, err
	}
}

// exporter writes exports to files. Nothing of a sale is deleted before its export is on disk.
type exporter struct {
	sync func(*os.File) error // os.File's; tests replace it
}

// write writes the export to a temporary file, reads it back, and renames it. It returns the
// SHA-256 of the file, which the manifest has too. An existing file with the same bytes counts
// as written. The file is readable by its owner only, as temporary files are, since it has all
// users and the keys of their requests.
func (x exporter) write(ctx context.Context, logs ledger.Logs, path string, e *Export) ([]byte, error) {
	var sum []byte
	err := files.Save(path, x.sync, func(temp *os.File) (err error) {
		sum, err = e.Write(ctx, logs, temp)
		return err
	}, func(temp string) error {
		if err := checkExport(ctx, logs, temp, sum, e); err != nil {
			return err
		}
		return publish(temp, path, sum)
	})
	if err != nil {
		return sum, fmt.Errorf("exporting: %w", err)
	}
	return sum, x.manifest(path, sum)
}

// checkExport folds the file as it is on disk.
func checkExport(ctx context.Context, logs ledger.Logs, path string, digest []byte, e *Export) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the export back: %w", err)
	}
	defer f.Close()
	return e.Check(ctx, logs, f, path, digest)
}

// Write writes the export, and returns the SHA-256 of its bytes.
func (e *Export) Write(ctx context.Context, logs ledger.Logs, to io.Writer) ([]byte, error) {
	digest := sha256.New()
	if err := export.Write(ctx, logs, e.sale, e.log, e.shards, e.reader(logs), io.MultiWriter(to, digest)); err != nil {
		return nil, err
	}
	return digest.Sum(nil), nil
}

// Check reads an export back. It must have the bytes that were written, and these must be
// those of the ledger. place names its location in errors.
func (e *Export) Check(ctx context.Context, logs ledger.Logs, from io.Reader, place string, digest []byte) error {
	read := sha256.New()
	err := export.Check(ctx, logs, io.TeeReader(from, read), e.sale, e.log, e.shards, e.reader(logs))
	if err == nil && !bytes.Equal(read.Sum(nil), digest) {
		err = errors.New("it is not what was written")
	}
	if err != nil {
		return fmt.Errorf("reading the export back from %s, check the disk: %w", place, err)
	}
	return nil
}

// publish renames a synced file to its final name. It replaces an existing file with the same
// bytes, since that file may not be synced.
func publish(temp, path string, digest []byte) error {
	switch has, err := digestOf(path); {
	case err == nil && !bytes.Equal(has, digest):
		return inTheWay(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return os.Rename(temp, path)
}

func digestOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	digest := sha256.New()
	_, err = io.Copy(digest, f)
	return digest.Sum(nil), err
}

// CheckManifest returns an error if the manifest's path has a file that is no manifest of the
// export.
func CheckManifest(export string) error {
	_, err := ReadManifest(export)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadManifest returns the SHA-256 in the manifest of an export. If there is no manifest, the
// error is fs.ErrNotExist; if the file is no manifest of the export, a Refusal.
func ReadManifest(export string) ([]byte, error) {
	says, err := files.ReadManifest(export)
	if none, is := errors.AsType[*files.NoManifestError](err); is {
		return nil, &planner.Refusal{
			Reason: fmt.Sprintf("%s exists, and is not a manifest of %s", files.ManifestPath(export), none.Path),
			Remedy: "Move it away, or name another file for the export.",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	return says, nil
}

// WriteManifest writes the manifest of an export and replaces an older one. A manifest has the
// digest of the export, so that a recipient of both can verify the export with sha256sum -c.
func WriteManifest(export string, digest []byte) error {
	return exporter{(*os.File).Sync}.manifest(export, digest)
}

func (x exporter) manifest(export string, digest []byte) error {
	if err := CheckManifest(export); err != nil {
		return err
	}
	path := files.ManifestPath(export)
	err := files.Save(path, x.sync, func(temp *os.File) error {
		// sha256sum escapes a name with a line break or a backslash only in a line that begins
		// with a backslash; here that is not needed.
		_, err := fmt.Fprintf(temp, "%x  %s\n", digest, filepath.Base(export))
		return err
	}, func(temp string) error { return os.Rename(temp, path) })
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// Remember stores what users bought in a run of a sale, for the rules of later sales. It may
// receive the same buyers again. Without buyers it only returns the error that storing would
// have.
type Remember func(ctx context.Context, sale, uid string, buyers []rules.Buyer) error

// rememberAtOnce bounds the number of buyers in one call of a Remember.
const rememberAtOnce = 4096

// remembering returns an Exporter that stores what users bought after the export: what is
// stored without an export would be stored again.
func remembering(export Exporter, remember Remember) Exporter {
	return func(ctx context.Context, logs ledger.Logs, e *Export) (string, []byte, error) {
		path, digest, err := export(ctx, logs, e)
		if err != nil {
			return path, digest, err
		}
		for chunk := range slices.Chunk(e.buyers(), rememberAtOnce) {
			if err := remember(ctx, e.sale, e.uid, chunk); err != nil {
				return path, digest, fmt.Errorf("recording purchases: %w", err)
			}
		}
		return path, digest, nil
	}
}

// buyers returns the users who have units, in the order of the shards. A user's claims are on
// one shard.
func (e *Export) buyers() (all []rules.Buyer) {
	for _, s := range e.shards {
		index := make(map[string]int)
		for i := range s.Claims() {
			c := s.Claim(i)
			if c.State != ledger.StateSold {
				continue
			}
			n, known := index[c.User]
			if !known {
				n = len(all)
				index[c.User], all = n, append(all, rules.Buyer{User: c.User})
			}
			b := &all[n]
			b.Units += int64(len(c.Units))
			if at := time.UnixMicro(c.TimeUs).UTC(); at.After(b.At) {
				b.At = at
			}
		}
	}
	return all
}
