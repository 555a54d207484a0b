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

	"salectl/backends/ledger"
)

// DefaultExport is the file that a sale is exported to if none is named.
func DefaultExport(sale, uid string) string { return fmt.Sprintf("%s-%s.ndjson", sale, uid) }

// checkExportPath refuses, before anything is closed, a path at which a file
// stands that cannot be the export to come: any file while shards are unsealed,
// then any that is no export of this run. Whether it is the same export is known
// only when that is made.
func checkExportPath(path, uid string, sealed bool) error {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		folder, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("the ledger cannot be exported: %w", err)
		}
		if !folder.IsDir() {
			return fmt.Errorf("the ledger cannot be exported: %s is no folder", filepath.Dir(path))
		}
		return nil
	case err != nil:
		return fmt.Errorf("the ledger cannot be exported: %w", err)
	}
	defer f.Close()
	var header ledger.ExportHeader
	if err := json.NewDecoder(f).Decode(&header); err != nil || header.UID != uid || !sealed {
		return inTheWay(path)
	}
	return nil
}

func inTheWay(path string) error {
	return &Refusal{
		Reason: fmt.Sprintf("%s is there already, and is not the export of the sale as it ends", path),
		Remedy: "Move it away, or name another file with --export.",
	}
}

// writeExport writes the export, reads it back, and gives it its name. It
// returns the SHA-256 of the file. A file of that name with the same bytes
// counts as written.
//
// The file is written under a name of its own first: two that export at once
// must not write into one file, which one of them then renames.
func writeExport(ctx context.Context, logs ledger.Logs, path string, job *exportJob) ([]byte, error) {
	partial, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	defer os.Remove(partial.Name()) // after the rename there is nothing to remove
	defer partial.Close()
	sum, err := job.write(ctx, logs, partial)
	if err != nil {
		return nil, err
	}
	if err := partial.Chmod(0o644); err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	if err := errors.Join(partial.Sync(), partial.Close()); err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	if err := checkExport(partial.Name(), sum, job); err != nil {
		return nil, err
	}
	return sum, publish(partial.Name(), path, sum)
}

// checkExport folds the file as it is on the disk.
func checkExport(path string, digest []byte, job *exportJob) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the export back: %w", err)
	}
	defer f.Close()
	return job.check(f, path, digest)
}

// write writes the export, and returns its SHA-256.
func (job *exportJob) write(ctx context.Context, logs ledger.Logs, to io.Writer) ([]byte, error) {
	digest := sha256.New()
	if err := ledger.Export(ctx, logs, job.sale, job.uid, job.shards, io.MultiWriter(to, digest)); err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	return digest.Sum(nil), nil
}

// check reads an export back from a place. It must have the bytes that were written,
// and these must be those of the ledger.
func (job *exportJob) check(from io.Reader, place string, digest []byte) error {
	read := sha256.New()
	err := ledger.CheckExport(io.TeeReader(from, read), job.sale, job.uid, job.shards)
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
func publish(partial, path string, digest []byte) error {
	switch has, err := digestOf(path); {
	case err == nil && !bytes.Equal(has, digest):
		return inTheWay(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("exporting: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return syncFolder(path)
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
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return errors.Join(folder.Sync(), folder.Close())
}
