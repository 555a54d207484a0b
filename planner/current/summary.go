package current

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// Brief is a summary of a sale, read from its ledger alone.
type Brief struct {
	Phase      string `json:"phase"` // considers the hours; does not check whether the sale can sell
	Run        int64  `json:"run"`
	UID        string `json:"uid"`
	Generation uint64 `json:"generation"`
	spec.About
	// Declared by the newest generation of a sale that is not destroyed.
	OpensAt   string `json:"opensAt,omitempty"`  // RFC 3339, UTC; "": at once
	ClosesAt  string `json:"closesAt,omitempty"` // RFC 3339, UTC; "": never
	Undrawn   bool   `json:"undrawn,omitempty"`  // a draw of which not all ranks are published
	Stock     int64  `json:"stock"`
	Sold      int64  `json:"sold"`
	Held      int64  `json:"held"`
	Available int64  `json:"available"`
	Unread    int    `json:"unread,omitempty"` // number of shards that could not be read; the sums omit them
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
		return nil, fmt.Errorf("sale %s: %w: %w", name, planner.ErrStore, err)
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
		return nil, fmt.Errorf("sale %s does not exist: %w", name, ledger.ErrGone)
	}
	s := &Brief{Phase: sale.Phase(), Run: sale.Run(), UID: sale.UID(), Generation: sale.Generation()}
	last, err := planner.Declared(sale.Newest())
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", name, err)
	}
	s.About = last.About
	if sale.Destroyed() {
		s.Stock, s.Sold = last.Stock, sale.Sealed().GetUnitsSold()
		return s, nil
	}
	settings, drawing := sale.Newest().GetSettings(), ledger.DrawStatus(sale)
	s.Undrawn = drawing != nil && !drawing.Complete
	s.OpensAt, s.ClosesAt = ledger.FormatTime(settings.GetOpensAtUs()), ledger.FormatTime(settings.GetClosesAtUs())
	actual := &planner.Actual{Name: name, At: time.Now(), Sale: sale}
	heads, err := logs.Heads(ctx, planner.ShardLogs(sale))
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w: reading the heads of its shards: %w", name, planner.ErrStore, err)
	}
	for _, head := range heads {
		actual.Shards = append(actual.Shards, planner.NewShardActual(head))
	}
	has, unread := actual.Totals()
	s.Stock, s.Sold, s.Held, s.Available, s.Unread = has.Limit, has.Sold, has.Held, has.Available, unread
	s.Phase = phaseNow(actual)
	return s, nil
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
		return nil, fmt.Errorf("%w: listing sales: %w", planner.ErrStore, err)
	}
	for i, name := range names {
		names[i] = name[len(spec.SaleLog("")):]
	}
	return names, nil
}
