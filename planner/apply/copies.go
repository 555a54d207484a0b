package apply

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// A rehearsal sells a copy of a sale. Copies that a killed rehearsal leaves behind are found
// by their names, which no sale can have.

// CopyName returns a new name for a copy of a sale. Names are never reused, because HBase
// hides a row that is written after a row of the same name was deleted.
func CopyName(sale string) string {
	return spec.CopyPrefix + copyDigest(sale) + "-" + strings.ToLower(rand.Text())
}

func copyDigest(sale string) string {
	digest := sha256.Sum256([]byte(sale))
	return hex.EncodeToString(digest[:4])
}

// RemoveCopies removes the copies of a sale that killed rehearsals have left. It keeps copies
// that are served and those made, or about to be removed, less than age ago. The lock nodes of
// cfg show whether a copy is served, so copies of other sales are left alone.
func RemoveCopies(ctx context.Context, cfg Config, sale string, age time.Duration) error {
	names, err := current.ListNames(ctx, cfg.Logs, spec.CopyPrefix+copyDigest(sale))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeCopy(ctx, cfg, name, age); err != nil {
			return fmt.Errorf("removing an earlier rehearsal, %s: %w", name, err)
		}
	}
	return nil
}

func removeCopy(ctx context.Context, cfg Config, name string, age time.Duration) error {
	actual, err := current.ReadSale(ctx, cfg.Backends, name)
	if err != nil {
		return err
	}
	if touched := time.UnixMicro(actual.Sale.Head().TimeUs); time.Since(touched) < age || !actual.Unserved() {
		return nil
	}
	_, err = Purge(ctx, cfg, name)
	return err
}

// Purge removes a copy without an export and deletes its own log last. A copy that does not
// exist is no error.
func Purge(ctx context.Context, cfg Config, name string) (*Result, error) {
	if !current.IsCopy(name) {
		return nil, planner.Refuse("sale %s is not a rehearsal, so it is not removed without an export", name)
	}
	actual, err := current.ReadSale(ctx, cfg.Backends, name)
	if err != nil {
		return nil, err
	}
	if actual.Sale.UID() == "" {
		return &Result{Sale: name}, nil
	}
	plan, err := planner.MakeDestroy(actual)
	if err != nil {
		return nil, err
	}
	return destroy(ctx, cfg, plan, "", true)
}
