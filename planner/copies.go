package planner

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"salectl/backends/ledger"
	"salectl/spec"
)

// A rehearsal sells a copy of a sale, in the place of the sale. Copies that a killed rehearsal has
// left are found by their names, which no sale can have.

// Earlier versions gave copies names that a sale could have, and kept a list of the copies of each
// sale in the head of a log whose name begins as theirs.
const earlierPrefix = "rehearsal-"

var (
	earlierCopy = regexp.MustCompile(`^` + earlierPrefix + `[0-9a-f]{8}-[a-z2-7]{26}$`)
	earlierList = regexp.MustCompile(`^` + earlierPrefix + `[0-9a-f]{8}$`) // a sale may have such a name, too
)

// CopyName returns a new name for a copy of a sale. Names never come again, because HBase hides a
// row that is written after its namesake was deleted.
func CopyName(sale string) string {
	return spec.CopyPrefix + copyDigest(sale) + "-" + strings.ToLower(rand.Text())
}

func copyDigest(sale string) string {
	digest := sha256.Sum256([]byte(sale))
	return hex.EncodeToString(digest[:4])
}

// isCopy reports whether a name is that of a copy, of this version or an earlier one.
func isCopy(name string) bool {
	return strings.HasPrefix(name, spec.CopyPrefix) || earlierCopy.MatchString(name)
}

// isEarlierList reports whether a head is a list of copies.
func isEarlierList(head []byte) bool {
	var list struct{ Live *json.RawMessage }
	return json.Unmarshal(head, &list) == nil && list.Live != nil
}

// listNames returns the names of the logs of sales and copies that begin with a prefix.
func listNames(ctx context.Context, logs ledger.Logs, prefix string) ([]string, error) {
	lister, can := logs.(ledger.Lister)
	if !can {
		return nil, errors.New("this kind of store cannot list its sales")
	}
	names, err := lister.List(ctx, spec.SaleLog(prefix))
	if err != nil {
		return nil, fmt.Errorf("%w: listing sales: %w", ErrStore, err)
	}
	for i, name := range names {
		names[i] = name[len(spec.SaleLog("")):]
	}
	return names, nil
}

// earlierLists returns which of some names are of logs in which earlier versions kept lists, with
// their heads.
func earlierLists(ctx context.Context, logs ledger.Logs, names []string) (map[string][]byte, error) {
	var maybe, keys []string
	for _, name := range names {
		if earlierList.MatchString(name) {
			maybe, keys = append(maybe, name), append(keys, spec.SaleLog(name))
		}
	}
	if len(maybe) == 0 {
		return nil, nil
	}
	heads, err := logs.Heads(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("%w: listing sales: %w", ErrStore, err)
	}
	found := make(map[string][]byte)
	for i, head := range heads {
		if isEarlierList(head) {
			found[maybe[i]] = head
		}
	}
	return found, nil
}

// RemoveCopies removes the copies of a sale that killed rehearsals have left, and the list that
// earlier versions kept of them. Copies that are served stay, and those that were made, or about to be
// removed, within an age. It knows by the lock nodes of cfg whether a copy is served, so that it
// leaves those of other sales alone.
func RemoveCopies(ctx context.Context, cfg Config, sale string, age time.Duration) error {
	digest := copyDigest(sale)
	for _, prefix := range []string{spec.CopyPrefix + digest, earlierPrefix + digest} {
		names, err := listNames(ctx, cfg.Logs, prefix)
		if err != nil {
			return err
		}
		lists, err := earlierLists(ctx, cfg.Logs, names)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !isCopy(name) {
				continue
			}
			if err := removeCopy(ctx, cfg, name, age); err != nil {
				return fmt.Errorf("removing an earlier rehearsal, %s: %w", name, err)
			}
		}
		for name, head := range lists { // they are of no use any more, whatever copies stay
			slot, _ := ledger.HeadSlot(head)
			if err := cfg.Logs.Delete(ctx, spec.SaleLog(name), slot); err != nil {
				return fmt.Errorf("removing the list of earlier rehearsals: %w", err)
			}
		}
	}
	return nil
}

func removeCopy(ctx context.Context, cfg Config, name string, age time.Duration) error {
	actual, err := ReadSale(ctx, cfg, name)
	if err != nil {
		return err
	}
	if touched := time.UnixMicro(actual.Sale.Head().TimeUs); time.Since(touched) < age || !actual.Unserved() {
		return nil
	}
	_, err = Purge(ctx, cfg, name)
	return err
}

// Purge removes a copy without a trace: there is no export, and its own log
// is deleted last. A copy that does not exist is no error.
func Purge(ctx context.Context, cfg Config, name string) (*Result, error) {
	if !isCopy(name) {
		return nil, &Refusal{
			Reason: fmt.Sprintf("sale %s is no rehearsal, and is not removed without an export", name),
		}
	}
	actual, err := ReadSale(ctx, cfg, name)
	if err != nil {
		return nil, err
	}
	if actual.Sale.UID() == "" {
		return &Result{Sale: name}, nil
	}
	plan, err := MakeDestroy(actual)
	if err != nil {
		return nil, err
	}
	return destroy(ctx, cfg, plan, "", true)
}
