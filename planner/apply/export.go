package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/internal/files"
	"salectl/planner"
	"salectl/rules"
)

// checkExportPath refuses, before anything is closed, a path that cannot be written or has a
// file that cannot be this sale's export. While shards are unsealed that is any file; later,
// any file that is no export of this run. Whether an export is the same is known only once it
// is made. A file at the manifest's path that is no manifest is refused too.
func checkExportPath(path, uid string, sealed bool) error {
	if err := files.CheckManifest(path); err != nil {
		return inTheWay(err)
	}
	f, err := files.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("the ledger cannot be exported: %w", err)
	default:
		defer f.Close()
		var header export.Header
		if err := json.NewDecoder(f).Decode(&header); err != nil || header.UID != uid || !sealed {
			return inTheWay(&files.ExistsError{Path: path, What: "is not the final export of the sale"})
		}
	}
	if err := files.CheckWritable(files.ManifestPath(path)); err != nil { // the longer of the two names
		return fmt.Errorf("the ledger cannot be exported: %w", err)
	}
	return nil
}

// inTheWay returns a Refusal for a file that would have to be overwritten, and any other error as it is.
func inTheWay(err error) error {
	if errors.Is(err, files.ErrExists) {
		return planner.Refuse("%v with --out", err)
	}
	return err
}

// fileExporter returns an Exporter to a file. It reads the file back before it gets its name: nothing
// of a sale is deleted before its export is on disk. The manifest has the SHA-256, too. An existing file
// with the same bytes counts as written. The file is readable by its owner only, since it has all users
// and the keys of their requests. sync is that of os.File, unless a test replaces it.
func fileExporter(path string, sync func(*os.File) error) Exporter {
	return func(ctx context.Context, sale export.Sale) (string, []byte, error) {
		saving := files.Saving{Sync: sync, Check: func(temp string) error { return checkExport(ctx, temp, sale) }}
		digest, err := saving.Save(path, func(to io.Writer) error { return sale.Write(ctx, to) })
		if err != nil {
			return path, nil, inTheWay(fmt.Errorf("exporting: %w", err))
		}
		return path, digest, inTheWay(saving.WriteManifest(path, digest))
	}
}

// checkExport compares the file, as it is on disk, with the ledger.
func checkExport(ctx context.Context, path string, sale export.Sale) error {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		err = sale.Check(ctx, f)
	}
	if err != nil {
		return fmt.Errorf("reading the export back from %s, check the disk: %w", path, err)
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
func remembering(write Exporter, remember Remember) Exporter {
	return func(ctx context.Context, sale export.Sale) (string, []byte, error) {
		path, digest, err := write(ctx, sale)
		if err != nil {
			return path, digest, err
		}
		for chunk := range slices.Chunk(buyersOf(sale.Shards), rememberAtOnce) {
			if err := remember(ctx, sale.Name, sale.Log.UID(), chunk); err != nil {
				return path, digest, fmt.Errorf("recording purchases: %w", err)
			}
		}
		return path, digest, nil
	}
}

// buyersOf returns the users who have units, in the order of the shards. A user's claims are on
// one shard.
func buyersOf(shards []*ledger.State) (all []rules.Buyer) {
	for _, s := range shards {
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
