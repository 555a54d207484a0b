package current

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// Brief is a summary of a sale, read from its ledger alone.
type Brief struct {
	// SaleSummary has the phase that every shard has reached, by the hours at the time of the read, and
	// the last declared stock of a destroyed sale. A draw's root and ranks are those of the sale's log.
	api.SaleSummary
	Run int64 `json:"run"`
	spec.About
	Unread int `json:"unread,omitempty"` // number of shards that could not be read; the sums omit them
}

// newBrief returns the summary of a sale at the time of its read. If the declaration is unreadable,
// it lacks what that alone has, and err is not nil.
func newBrief(actual *planner.Actual) (b Brief, err error) {
	sale := actual.Sale
	newest, err := planner.Declared(sale.Newest())
	b.Run, b.About = sale.Run(), newest.About
	b.Sale, b.UID, b.Generation, b.Phase = actual.Name, sale.UID(), sale.Generation(), phaseNow(actual)
	if sale.Destroyed() {
		b.Stock, b.Sold = newest.Stock, sale.Sealed().GetUnitsSold()
		b.SoldOut = sale.Draw() == nil && b.Stock > 0 && b.Sold == b.Stock
		return b, err
	}
	settings := sale.Newest().GetSettings()
	b.OpensAt, b.ClosesAt = ledger.Time(settings.GetOpensAtUs()).UTC(), ledger.Time(settings.GetClosesAtUs()).UTC()
	has, unread := actual.Totals()
	b.Stock, b.Sold, b.Held, b.Available, b.InFlight, b.Unread = has.Limit, has.Sold, has.Held, has.Available, has.InFlight, unread
	if b.Draw = ledger.DrawStatus(sale); b.Draw != nil {
		b.Draw.Winners, b.Draw.Entries = b.Stock, has.Entries
		b.Draw.Lapsed += has.Lapsed()
	}
	b.SoldOut = unread == 0 && b.Draw == nil && b.Stock > 0 && b.Sold == b.Stock
	return b, err
}

// Live reports whether the sale is neither destroyed nor sealed.
func (s *Brief) Live() bool {
	return s.Phase != ledger.PhaseSealed && s.Phase != ledger.PhaseDestroyed
}

// ListSales returns the names of all sales of a store, including destroyed ones and excluding
// the copies made by rehearsals. It returns an error if the store cannot list names.
func ListSales(ctx context.Context, logs ledger.Logs) ([]string, error) {
	names, err := ListNames(ctx, logs, "")
	return slices.DeleteFunc(names, IsCopy), err
}

// ReadOwnLog reads a sale's own log. A sale that never existed has no UID. If the log cannot
// be read, the error is ErrStore.
func ReadOwnLog(ctx context.Context, logs ledger.Logs, name string) (*ledger.Sale, error) {
	log := spec.SaleLog(name)
	sale := ledger.NewSale(log)
	if _, err := ledger.Load(ctx, logs, log, sale); err != nil {
		return nil, fmt.Errorf("sale %s: %w", name, &planner.StoreError{Err: err})
	}
	return sale, nil
}

// Summarize reads a sale's own log and the heads of its shards. For a sale that never existed
// the error is ledger.ErrGone; if its log cannot be read, ErrStore.
func Summarize(ctx context.Context, logs ledger.Logs, name string) (*Brief, error) {
	sale, err := ReadOwnLog(ctx, logs, name)
	if err != nil {
		return nil, err
	}
	if sale.UID() == "" {
		return nil, ledger.NoSale{Sale: name}
	}
	actual := &planner.Actual{Name: name, At: time.Now(), Sale: sale}
	if !sale.Destroyed() {
		heads, err := logs.Heads(ctx, sale.ShardLogs())
		if err != nil {
			return nil, fmt.Errorf("sale %s: %w", name, &planner.StoreError{Err: fmt.Errorf("reading the heads of its shards: %w", err)})
		}
		for _, head := range heads {
			actual.Shards = append(actual.Shards, planner.NewShardActual(head))
		}
	}
	b, err := newBrief(actual)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", name, err)
	}
	return &b, nil
}

// IsCopy reports whether a name is that of a copy.
func IsCopy(name string) bool { return strings.HasPrefix(name, spec.CopyPrefix) }

// ListNames returns the names of sales and copies whose names begin with a prefix.
func ListNames(ctx context.Context, logs ledger.Logs, prefix string) ([]string, error) {
	lister, can := logs.(ledger.Lister)
	if !can {
		return nil, errors.New("this kind of store cannot list its sales")
	}
	names, err := lister.List(ctx, spec.SaleLog(prefix))
	if err != nil {
		return nil, &planner.StoreError{Err: fmt.Errorf("listing sales: %w", err)}
	}
	for i, name := range names {
		names[i] = name[len(spec.SaleLog("")):]
	}
	return names, nil
}
