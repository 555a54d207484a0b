package planner

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

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/backends/ledger/payload"
	"salectl/spec"
	"salectl/units"
)

// DefaultExport is the file that a sale is exported to if none is named.
func DefaultExport(sale, uid string) string { return fmt.Sprintf("%s-%s.ndjson", sale, uid) }

// checkExportPath refuses, before anything is closed, a path that cannot be written, and
// one at which a file stands that cannot be the export to come: any file while shards are
// unsealed, then any that is no export of this run. Whether it is the same export is known
// only when that is made. So it does what is no manifest where that is to be.
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
	temp, err := CreateTemp(ManifestPath(path)) // beside the export, and with the longest of the names
	if err != nil {
		return fmt.Errorf("the ledger cannot be exported: %w", err)
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

func inTheWay(path string) error {
	return &Refusal{
		Reason: fmt.Sprintf("%s is there already, and is not the export of the sale as it ends", path),
		Remedy: "Move it away, or name another file with --export.",
	}
}

// ReadWhole reads a sale's log and its shards on, after they were read once, until nothing is
// missing of any shard that must be there by that log and by the others, nor a generation of that
// log that a shard has taken, or the ranks of units that it has awarded: only then an export of them
// is one of the whole sale. What is missing at last is the error.
func ReadWhole(ctx context.Context, logs ledger.Logs, name string, sale *ledger.Sale, shards []*ledger.State) error {
	uid := sale.UID()
	for try := 1; ; try++ {
		if _, err := ledger.Load(ctx, logs, spec.SaleLog(name), sale); err != nil {
			return err
		}
		lacks := ledger.Lacks(sale.Applied(), shards)
		i := slices.IndexFunc(lacks, func(what string) bool { return what != "" })
		lags := sale.Behind(shards)
		switch {
		case sale.UID() != uid || sale.Destroyed() || readShort(sale, shards):
			return fmt.Errorf("sale %s is being deleted, its ledger is in the export that destroy wrote: %w", name, ledger.ErrGone)
		case i < 0 && !lags:
			return nil
		case try == missingTries && i < 0:
			return &Refusal{
				Reason: fmt.Sprintf("the log of sale %s was read without a generation that a shard has taken, or the ranks of units awarded: the store answers from the past", name),
				Remedy: "Run the command again.",
			}
		case try == missingTries:
			return partOf(sale, i, shards[i], lacks[i])
		}
		if err := ledger.Wait(ctx, logs, missingPause); err != nil {
			return err
		}
		if err := ledger.ReadOn(ctx, logs, shards); err != nil {
			return err
		}
	}
}

// readShort reports whether shards were read without slots that the sale was sealed with: before they
// were sealed, or while their logs are deleted. A sale that was never applied may have lost all of them.
func readShort(sale *ledger.Sale, shards []*ledger.State) bool {
	for i, slots := range sale.Sealed().GetSlots() {
		if shards[i].Next() < slots {
			return true
		}
	}
	return false
}

// partOf is a shard of which not all is there.
func partOf(sale *ledger.Sale, i int, s *ledger.State, lacks string) error {
	switch head := s.Head(); {
	case s.Next() == 0:
		return noLog(sale, i)
	case s.Generation < sale.Applied():
		return damaged(sale, i, &head)
	}
	return &Refusal{
		Reason: fmt.Sprintf("%s %s: a destroy of the sale has begun and not ended", shardAddress(i), lacks),
		Remedy: "Wait until it has, or run 'salectl destroy' again: it exports the sale.",
	}
}

// Export is the ledger of a sale whose shards are sealed, to be kept elsewhere
// before it is deleted.
type Export struct {
	sale, uid string
	log       *ledger.Sale // the sale's own, as it was read
	shards    []*ledger.State

	// What the units are is read again, where they are more than numbers.
	payloads bool
	key      *units.Key
	added    []ledger.Added
}

// reader reads what the units are; nil where they are numbers.
func (e *Export) reader(logs ledger.Logs) *payload.Reader {
	if !e.payloads {
		return nil
	}
	r := payload.NewReader(logs, e.uid, e.key)
	r.Follow(e.added)
	return r
}

// fileExporter exports to a file.
func fileExporter(path string) Exporter {
	return func(ctx context.Context, logs ledger.Logs, e *Export) (string, []byte, error) {
		digest, err := exporter{(*os.File).Sync}.write(ctx, logs, path, e)
		return path, digest, err
	}
}

// exporter writes exports to files. Nothing of a sale is deleted before its export
// is on the disk.
type exporter struct {
	sync func(*os.File) error // os.File's, but in tests of it
}

// write writes the export, reads it back, and gives it its name. It returns the
// SHA-256 of the file, which its manifest has too. A file of that name with the same bytes
// counts as written. The file is its owner's alone, as temporary files are: it has all users
// and the keys of their requests.
func (x exporter) write(ctx context.Context, logs ledger.Logs, path string, e *Export) ([]byte, error) {
	temp, err := CreateTemp(path)
	if err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	defer temp.Close()
	defer os.Remove(temp.Name()) // after the rename there is nothing to remove
	sum, err := e.Write(ctx, logs, temp)
	if err != nil {
		return nil, err
	}
	if err := x.sync(temp); err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	if err := checkExport(ctx, logs, temp.Name(), sum, e); err != nil {
		return nil, err
	}
	if err := MoveTemp(temp, func() error { return x.publish(temp.Name(), path, sum) }); err != nil {
		return sum, err
	}
	return sum, x.manifest(path, sum)
}

// checkExport folds the file as it is on the disk.
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
		return nil, fmt.Errorf("exporting: %w", err)
	}
	return digest.Sum(nil), nil
}

// Check reads an export back from a place. It must have the bytes that were written,
// and these must be those of the ledger.
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

// publish gives a file that is synced its name for good. One that is there with
// the same bytes is replaced: nobody knows whether that is synced.
func (e exporter) publish(temp, path string, digest []byte) error {
	switch has, err := digestOf(path); {
	case err == nil && !bytes.Equal(has, digest):
		return inTheWay(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("exporting: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return e.syncFolder(path)
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

// syncFolder makes the name durable.
func (e exporter) syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return errors.Join(e.sync(folder), folder.Close())
}
