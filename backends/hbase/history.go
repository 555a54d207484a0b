package hbase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"salectl/rules"
	"salectl/spec"
)

// History implements rules.Histories on a table, and writes to it. A row is a user; it has a
// cell for each run of a sale in which the user bought, named by the run's uid. Writing a cell
// again does not change it.
type History struct {
	logs   *Logs // for its connections and its table, which has no logs
	family string
}

var _ rules.Histories = (*History)(nil)

// bought is a cell's value, as JSON.
type bought struct {
	Sale  string    `json:"sale"`
	Units int64     `json:"units"`
	At    time.Time `json:"at"`
}

// OpenHistory returns a handle on the history in a table. Like Open, it connects to nothing.
// Close releases its connections.
func OpenHistory(t spec.Rows) (*History, error) {
	logs, err := openRows(t)
	return &History{logs, t.Family}, err
}

// Close closes all connections and waits for the calls under way.
func (h *History) Close() error { return h.logs.Close() }

// History implements rules.Histories. It makes as many calls as Users.Lookup.
func (h *History) History(ctx context.Context, ids []string) ([][]rules.Purchase, error) {
	all, bad := make([][]rules.Purchase, len(ids)), make([]error, len(ids))
	err := h.logs.call(fmt.Sprintf("read the purchases of %d users", len(ids)), func() error {
		err := h.logs.getRows(ctx, ids, map[string][]string{h.family: nil}, func(i int, answer proto.Message) { all[i], bad[i] = h.row(ids[i], answer) })
		if err != nil {
			return err
		}
		return errors.Join(bad...)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (h *History) row(id string, answer proto.Message) (all []rules.Purchase, err error) {
	for _, cell := range answer.(*pb.GetResponse).GetResult().GetCell() {
		var b bought
		err := json.Unmarshal(cell.GetValue(), &b)
		if err == nil && (b.Sale == "" || b.Units < 1 || b.At.IsZero()) {
			err = errors.New("it lacks a sale, units or a time")
		}
		if err != nil {
			return nil, fmt.Errorf("the row %q, column %s:%s: %w", id, h.family, cell.GetQualifier(), err)
		}
		all = append(all, rules.Purchase{Sale: b.Sale, Run: string(cell.GetQualifier()), Units: b.Units, At: b.At})
	}
	return all, nil
}

// Remember stores what buyers bought in a run of a sale. After an error some of it may be
// stored; repeating it is safe. Without buyers it reads a row, which fails if the table or its
// family is missing.
func (h *History) Remember(ctx context.Context, sale, uid string, buyers []rules.Buyer) error {
	if len(buyers) == 0 {
		_, err := h.History(ctx, []string{"-"})
		return err
	}
	rows := make([]string, len(buyers))
	for i, b := range buyers {
		rows[i] = b.User
	}
	return h.logs.call(fmt.Sprintf("record the purchases of %d users", len(buyers)), func() error {
		return h.logs.eachRow(ctx, rows, func(i int) (hrpc.Call, error) {
			b := buyers[i]
			cell, err := json.Marshal(bought{sale, b.Units, b.At.UTC()})
			if err != nil {
				return nil, err
			}
			return hrpc.NewPut(ctx, h.logs.regions.table, []byte(b.User), map[string]map[string][]byte{h.family: {uid: cell}})
		}, func(int, proto.Message) {})
	})
}
