package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/executor"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

var (
	// ordersProgram is the example's consumer of the feed.
	ordersProgram = built("./orders-postgres")
	// database is the PostgreSQL of all tests here, from the first of them to the end.
	database = sync.OnceValues(func() (p *services.Postgres, err error) {
		if p, err = services.StartPostgres(context.Background(), services.PostgresOptions{}); err == nil {
			stopDatabase = p.Stop
		}
		return p, err
	})
	stopDatabase = func() {}
)

// shop is a sale of the example that this process serves, and whose orders are in PostgreSQL.
type shop struct {
	t    *testing.T
	name string
	dir  string // where its sale.yaml is
	db   *services.Postgres
	log  *os.File // output of the consumers
	sale *executor.Executor
}

// shopIn is a shop whose sale.yaml is in a folder, and which somebody else serves.
func shopIn(t *testing.T, name, dir string) *shop {
	t.Helper()
	s := &shop{t: t, name: name, dir: dir}
	var err error
	s.db, err = database()
	services.Require(t, err)
	if s.answers("SELECT to_regclass('feed_position') IS NOT NULL", "t") { // of an earlier run in this process
		s.deleteOrders()
	}
	s.log, err = os.OpenFile(filepath.Join(dir, "told"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	s.check(err)
	t.Cleanup(func() { s.log.Close() })
	return s
}

func newShop(t *testing.T, name string, stock int) *shop {
	t.Helper()
	t.Helper()
	example, err := os.ReadFile("orders-postgres/sale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return openShop(t, name, strings.NewReplacer("name: prints", "name: "+name, "stock: 500", fmt.Sprint("stock: ", stock), "P1-P500", fmt.Sprint("P1-P", stock)).Replace(string(example)))
}

// openShop is a shop of the sale that a file's text declares.
func openShop(t *testing.T, name, text string) *shop {
	t.Helper()
	s := shopIn(t, name, t.TempDir())
	s.apply(text)
	sales, _, err := spec.Load([]string{s.file()}, nil)
	s.check(err)
	store, err := backends.Open(sales[0], nil)
	s.check(err)
	s.sale = executor.New(executor.Config{Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Sale: name, Address: "here:1"})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.sale.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, store.Close()); err != nil {
			t.Error(err)
		}
	})
	s.eventually("the sale to be served", func() bool { return s.sale.Ready() == nil })
	return s
}

func (s *shop) file() string { return filepath.Join(s.dir, "sale.yaml") }

// apply makes the sale what the text declares.
func (s *shop) apply(text string) {
	s.t.Helper()
	s.check(os.WriteFile(s.file(), []byte(text), 0o600))
	s.salectl("apply", "--yes")
}

func (s *shop) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// eventually waits for what must happen at some time.
func (s *shop) eventually(what string, done func() bool) {
	s.t.Helper()
	wait.UntilNil(s.t, what, func() error {
		if !done() {
			return fmt.Errorf("the consumers wrote:\n%s", s.output())
		}
		return nil
	})
}

func (s *shop) salectl(args ...string) []byte {
	s.t.Helper()
	c := exec.Command("salectl", args...)
	c.Dir = s.dir
	var output bytes.Buffer
	c.Stderr = &output
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("salectl %v: %v\n%s", args, err, &output)
	}
	return out
}

// query queries the database, in which {sale} stands for the condition on runs of this sale.
func (s *shop) query(sql string) string {
	s.t.Helper()
	rows, err := s.db.Query(context.Background(), strings.ReplaceAll(sql, "{sale}", "run LIKE '/v1/sales/"+s.name+"/%'"))
	s.check(err)
	return strings.TrimSpace(rows)
}

// answers reports whether the database answers so. It may have no tables yet, or be down.
func (s *shop) answers(sql, want string) bool {
	rows, err := s.db.Query(context.Background(), strings.ReplaceAll(sql, "{sale}", "run LIKE '/v1/sales/"+s.name+"/%'"))
	return err == nil && strings.TrimSpace(rows) == want
}

// deleteOrders deletes what consumers have written of the sale, and how far they have read.
func (s *shop) deleteOrders() {
	s.t.Helper()
	s.query("DELETE FROM orders WHERE {sale}; DELETE FROM feed_position WHERE sale = '" + s.name + "'")
}

// consumer starts the example's program.
func (s *shop) consumer() *exec.Cmd {
	s.t.Helper()
	path, err := ordersProgram()
	s.check(err)
	c := exec.Command(path, "-sale", s.name, "-f", s.file())
	c.Env = append(os.Environ(), "DATABASE_URL="+s.db.URL())
	c.Stderr = s.log
	s.check(c.Start())
	s.t.Cleanup(func() { kill(c) })
	return c
}

// kill ends a process at once.
func kill(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait()
}

func (s *shop) output() string {
	text, err := os.ReadFile(s.log.Name())
	s.check(err)
	return string(text)
}

// buy has a user claim a print, which is held then.
func (s *shop) buy(user string) executor.ClaimID { return s.claim(user, api.Held) }

// claim has a user claim a unit, which comes to what is wanted.
func (s *shop) claim(user string, want api.Outcome) executor.ClaimID {
	s.t.Helper()
	var a executor.Answer
	_ = wait.Poll(wait.Limit, func() error {
		a = s.sale.Do(context.Background(), executor.Request{User: user, Key: "first", Quantity: 1})
		return undecided(a.Outcome)
	})
	if a.Outcome != want {
		s.t.Errorf("%s: %+v", user, a)
	}
	return a.Claim.ID
}

// undecided is an error if the caller may try again.
func undecided(o api.Outcome) error {
	if row := o.Row(); row.Retry != api.Final && row.Status >= 300 {
		return fmt.Errorf("the outcome is %s", o)
	}
	return nil
}

// settle returns what becomes of a claim.
func (s *shop) settle(claim executor.ClaimID, how api.How, payment string) {
	s.t.Helper()
	s.settleAs(claim, how, api.Settlement{Payment: payment})
}

func (s *shop) settleAs(claim executor.ClaimID, how api.How, as api.Settlement) {
	s.t.Helper()
	x := executor.Settlement{Claim: claim, How: how, Settlement: as}
	if err := wait.Poll(wait.Limit, func() error {
		return undecided(s.sale.Do(context.Background(), executor.Request{Settle: &x}).Outcome)
	}); err != nil {
		s.t.Errorf("%s of %v: %v", how, claim, err)
	}
}

// ends are what buyers come to, in turn.
var ends = []struct {
	state string
	hows  []api.How
}{
	{"held", nil},
	{"sold", []api.How{api.Confirm}},
	{"refunded", []api.How{api.Confirm, api.Refund, api.Return}},
	{"cancelled", []api.How{api.Cancel, api.Confirm}}, // so that the payment is owed back
	{"sold", []api.How{api.Extend, api.Confirm}},
}

// crowd has the users from first to last-1 buy, one end after the other.
func (s *shop) crowd(first, last int) {
	var next atomic.Int64
	next.Store(int64(first))
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(last); i = next.Add(1) - 1 {
				user := fmt.Sprint("user-", i)
				claim := s.buy(user)
				for _, how := range ends[i%int64(len(ends))].hows {
					payment := ""
					if how == api.Confirm || how == api.Return {
						payment = "pay-" + user
					}
					s.settle(claim, how, payment)
				}
			}
		})
	}
	all.Wait()
}

// order is a claim, as the table and the export have it.
type order struct {
	Claim    string
	User     string
	State    string
	Units    string
	Payloads string
	Amounts  string // with their currency
	Payment  string
	Due      string // payments that are owed back
	Returned string // those that were paid back
	Held     time.Time
	At       time.Time
}

// table is what PostgreSQL has of the sale, by claim.
func (s *shop) table() map[string]order {
	s.t.Helper()
	orders := make(map[string]order)
	for line := range strings.Lines(s.query("SELECT row_to_json(o) FROM orders o WHERE {sale}")) {
		var row struct {
			Claim, State, Payment string
			User                  string `json:"user_id"`
			Units                 []int64
			Payloads              json.RawMessage
			Amounts               []json.Number // with the digits that PostgreSQL has
			Currency              string
			Due                   []string `json:"refunds_due"`
			Returned              []string
			Held                  time.Time `json:"held_until"`
			At                    time.Time `json:"placed_at"`
		}
		s.check(json.Unmarshal([]byte(line), &row))
		if _, twice := orders[row.Claim]; twice {
			s.t.Errorf("claim %s is in the table twice", row.Claim)
		}
		orders[row.Claim] = order{
			row.Claim, row.User, row.State, fmt.Sprint(row.Units), compact(row.Payloads), fmt.Sprint(row.Amounts, row.Currency), row.Payment, fmt.Sprint(row.Due), fmt.Sprint(row.Returned), row.Held.UTC(), row.At.UTC(),
		}
	}
	return orders
}

// exported is what an export has of the sale, by claim.
func (s *shop) exported() map[string]order {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "export.ndjson")
	s.salectl("export", "--out", file)
	claims, currency := make(map[string]order), ""
	s.check(eachLine(file, func(line []byte) error {
		var c struct {
			Claim, User, State, Payment string
			Units                       []int64
			Payloads                    json.RawMessage
			Amounts                     []string
			RefundDue                   []string
			Returned                    []struct{ Payment string }
			HeldUntil, At               time.Time

			Packets struct{ Currency string } // of the header
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		if c.Packets.Currency != "" {
			currency = c.Packets.Currency
		}
		if c.Claim == "" {
			return nil // the header, or a commit
		}
		var returned []string
		for _, r := range c.Returned {
			returned = append(returned, r.Payment)
		}
		claims[c.Claim] = order{c.Claim, c.User, c.State, fmt.Sprint(c.Units), compact(c.Payloads), fmt.Sprint(c.Amounts, currency), c.Payment, fmt.Sprint(c.RefundDue), fmt.Sprint(returned), c.HeldUntil, c.At}
		return nil
	}))
	return claims
}

// compact is JSON without spaces, "" where there is nothing.
func compact(text json.RawMessage) string {
	if string(text) == "null" {
		return ""
	}
	var b bytes.Buffer
	_ = json.Compact(&b, text)
	return b.String()
}

// end is the position at the end of the ledger.
func (s *shop) end() string {
	s.t.Helper()
	c := exec.Command("salectl", "export", "--follow", "--from", "now")
	c.Dir = s.dir
	out, err := c.StdoutPipe()
	s.check(err)
	s.check(c.Start())
	defer kill(c)
	var resolved struct{ Data struct{ Position string } }
	s.check(json.NewDecoder(out).Decode(&resolved))
	return resolved.Data.Position
}

// same waits until a consumer has written all of the ledger, and compares the table with
// the export: it has so many claims, and the same of each.
func (s *shop) same(claims int) {
	s.t.Helper()
	end := s.end()
	s.eventually("the end of the feed", func() bool {
		return s.answers("SELECT position FROM feed_position WHERE sale = '"+s.name+"'", end)
	})
	table, export := s.table(), s.exported()
	if len(table) != claims || len(export) != claims {
		s.t.Errorf("the table has %d claims and the export %d, want %d", len(table), len(export), claims)
	}
	for id, want := range export {
		if got := table[id]; got != want {
			s.t.Errorf("the table has  %+v\nthe export has %+v", got, want)
			return
		}
	}
}

// trap has PostgreSQL run code, in PL/pgSQL, when a table is written, until the test is over or
// spring is called.
func (s *shop) trap(table, when, code string) (spring func()) {
	s.t.Helper()
	s.query("CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + code + "; RETURN NEW; END $$; " +
		"CREATE CONSTRAINT TRIGGER trap AFTER INSERT OR UPDATE ON " + table + " DEFERRABLE INITIALLY " + when + " FOR EACH ROW EXECUTE FUNCTION trap()")
	spring = sync.OnceFunc(func() { s.query("DROP FUNCTION trap CASCADE") })
	s.t.Cleanup(spring)
	return spring
}

// begun has a consumer make the tables and note where the feed stands.
func (s *shop) begun() {
	s.t.Helper()
	c := s.consumer()
	s.eventually("a position", func() bool {
		return s.answers("SELECT count(*) FROM feed_position WHERE position <> '' AND sale = '"+s.name+"'", "1")
	})
	kill(c)
}
