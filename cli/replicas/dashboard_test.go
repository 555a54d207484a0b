package replicas

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor/status"
	"salectl/internal/services"
	"salectl/internal/services/browser"
	"salectl/planner/current"
	"salectl/spec"
)

// report is the JSON of 'salectl status'.
type report struct {
	current.Status
	Health struct {
		State   string
		Reasons []string
	}
	Holds     *api.Holds
	Processes []api.Process
	Moves     []api.Move
	Problems  []api.SaleProblem
}

// facts are statements about a sale, by subject, in the words of the dashboard.
type facts map[string]string

// differences lists the subjects on which the page of a sale and a report of status disagree; nil: none.
func differences(page, status facts) error {
	all := maps.Clone(page)
	maps.Copy(all, status)
	var lines []string
	for _, subject := range slices.Sorted(maps.Keys(all)) {
		if page[subject] != status[subject] {
			lines = append(lines, fmt.Sprintf("%s: the page has %q, status %q", subject, page[subject], status[subject]))
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

var phaseWords = map[string]string{
	"scheduled": "Scheduled", "open": "Open", "stalled": "Stalled: no claim can be sold", "paused": "Paused", "ended": "Ended", "closed": "Closed",
}

var shardWords = map[string]string{
	api.ShardSelling: "selling", api.ShardNone: "none for sale now", api.ShardSoldOut: "sold out", api.ShardMoving: "moving",
	api.ShardStalled: "stalled: the store does not answer", api.ShardNoLease: "not selling: its owner must not write now", api.ShardUnknown: "unknown",
}

// idleWords replace "selling" while the sale is not open.
var idleWords = map[string]string{"scheduled": "ready to sell", "paused": "ready to sell", "ended": "not selling", "closed": "not selling"}

func stamp(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

// facts are those of the whole sale, and of the process that the command queried.
func (r *report) facts() facts {
	f := facts{"sells": fmt.Sprint(r.Health.State != "down")}
	known := r.Server != nil && r.Server.Error == "" // to the process
	phase := r.Phase
	if phase == "unknown" && known {
		phase = r.Server.Phase
	}
	switch {
	case !known:
		f["phase"] = "Unknown"
	case r.SoldOut && phase == "open":
		f["phase"] = "Sold out"
	case r.SoldOut:
		f["phase"] = phaseWords[phase] + ", sold out"
	default:
		f["phase"] = phaseWords[phase]
	}
	for name, n := range map[string]int64{"For sale": r.Available, "Held": r.Held, "In transfer": r.InFlight, "Sold": r.Sold, "Stock": r.Stock} {
		f[name] = "unknown"
		if known {
			f[name] = spec.Grouped(n)
		}
	}
	if known {
		f["hours"] = hours(r, phase)
		f["generation"] = fmt.Sprint(r.Generation)
	}
	if h := r.Holds; h != nil {
		for name, n := range map[string]int64{
			"Open": h.Open, "Confirmed": h.Confirmed, "Expired": h.Expired, "Cancelled": h.Cancelled, "Refunded": h.Refunded,
			"Sold to late payments": h.Resold, "Payments to pay back": h.Owed(), "Payments paid back": h.Returned,
		} {
			f["holds: "+name] = spec.Grouped(n)
		}
		f["holds: next release"] = "none"
		if !h.NextRelease.IsZero() {
			f["holds: next release"] = h.NextRelease.UTC().Format(time.TimeOnly)
		}
		if h.Owed() > 0 {
			f["banner of refunds"] = spec.Count(h.Owed(), "payment") + " must be paid back."
		}
	}
	for _, s := range r.Shards {
		if s.Server == nil {
			continue
		}
		owner, units := "?", "? ? ?"
		if s.LeaseLeftSeconds > 0 && s.Server.State != api.ShardUnknown { // a dead process keeps its leases for a ttl
			owner = s.Owner
		} else if s.Error == current.NotRead && s.Server.Owner != "" { // the leases of an unknown run are unknown
			owner = s.Server.Owner
		}
		total := s.Totals
		if s.Error != "" {
			total.Available, total.Held, total.Sold = s.Server.Available, s.Server.Held, s.Server.Sold
		}
		word := shardWords[s.Server.State]
		if idle := idleWords[phase]; s.Server.State == api.ShardSelling && idle != "" {
			word = idle
		}
		if s.Server.State != api.ShardUnknown && s.Server.Owner != "" { // otherwise no process reports them
			units = fmt.Sprintf("%s %s %s", spec.Grouped(total.Available), spec.Grouped(total.Held), spec.Grouped(total.Sold))
		}
		f[fmt.Sprintf("shard %d: owner", s.Shard)], f[fmt.Sprintf("shard %d: units", s.Shard)], f[fmt.Sprintf("shard %d: state", s.Shard)] = owner, units, word
	}
	for _, p := range r.Processes {
		state, shards := p.State, "?"
		if !p.Up {
			state = "not reached"
		}
		if p.Shards != nil {
			shards = fmt.Sprint(*p.Shards)
			if *p.Shards != p.Assigned {
				shards += fmt.Sprintf(" of %d assigned", p.Assigned)
			}
		}
		f["process "+p.Address] = fmt.Sprintf("%s, %s shards, %s", state, shards, p.Version)
		if p.Self {
			f["this process"] = p.Address
		}
	}
	for _, m := range r.Moves {
		f[fmt.Sprintf("move of shard %d", m.Shard)] = fmt.Sprintf("from %s to %s", m.From, m.To)
	}
	var problems []string
	for _, p := range r.Problems {
		text := p.Message
		if p.Where != "" {
			text += fmt.Sprintf(": %s %s", p.Subject, p.Where)
		}
		if !p.Since.IsZero() {
			text += ", since " + stamp(p.Since)
		}
		if p.Error != "" {
			text += ": " + p.Error
		}
		text = sentence(text)
		if p.Remedy != "" {
			text += " " + sentence(p.Remedy)
		}
		problems = append(problems, text)
	}
	f["problems"] = strings.Join(problems, "\n")
	for _, n := range r.Nodes {
		if n.Server != nil {
			f["node "+n.Name] = map[bool]string{true: "votes", false: "down"}[n.Server.Up]
		}
	}
	return f
}

// hours returns the opening hours of a sale in the words of the dashboard, without the time that is left.
func hours(r *report, phase string) string {
	now := time.Now()
	switch {
	case phase == "closed":
		return ""
	case r.OpensAt.After(now):
		return "Opens at " + stamp(r.OpensAt)
	case r.ClosesAt.After(now):
		return "Closes at " + stamp(r.ClosesAt)
	}
	return ""
}

// page is the text of the dashboard.
type page struct {
	Phase, Hours       string
	Old                bool // the units are of an earlier time
	Tiles, Holds, Self map[string]string
	Problems, Banners  []string
	Shards, Processes  [][]string
	Moves, Nodes       [][]string
}

const readPage = `(() => {
	const text = (e) => e.textContent.replace(/\s+/g, " ").trim();
	const pairs = (id) => [...document.querySelectorAll("#" + id + " > div")].filter((d) => d.checkVisibility()).map((d) => [...d.children].map(text));
	const rows = (id) => [...document.getElementById(id).tBodies[0].rows].map((r) => [...r.cells].map(text));
	return JSON.stringify({
		Phase: text(document.querySelector("#phase-text")), Hours: text(document.querySelector("#hours")),
		Old: document.querySelector("[data-needs=units]").classList.contains("old"),
		Tiles: Object.fromEntries(pairs("tiles")), Holds: Object.fromEntries(pairs("holds")), Self: Object.fromEntries(pairs("self")),
		Problems: pairs("self").filter(([name]) => name === "Problem").map(([, value]) => value),
		Banners: [...document.querySelectorAll(".banner")].map(text),
		Shards: rows("shards-table"), Processes: rows("processes"),
		Moves: document.querySelector("#moves").hidden ? [] : rows("moves"), Nodes: rows("nodes"),
	});
})()`

func (p *page) facts() facts {
	f := facts{"phase": p.Phase, "problems": strings.Join(p.Problems, "\n"), "sells": fmt.Sprint(p.Phase != "Unknown" && !strings.HasPrefix(p.Phase, "Stalled"))}
	for _, name := range []string{"For sale", "Held", "In transfer", "Sold", "Stock"} {
		f[name] = p.Tiles[name]
		if f[name] == "" && (name == "Held" || name == "In transfer") {
			f[name] = "0"
		}
		if p.Old || p.Tiles == nil {
			f[name] = "unknown"
		}
	}
	if !p.Old {
		word, at, timed := strings.Cut(p.Hours, " in ")
		if _, at, _ = strings.Cut(at, ", at "); timed {
			word += " at " + at
		}
		f["hours"] = word
		f["generation"] = p.Self["Generation"]
	}
	for name, value := range p.Holds {
		switch name {
		case "Next release":
			f["holds: next release"] = value
			if _, at, ok := strings.Cut(value, ", at "); ok {
				f["holds: next release"] = at
			}
		case "Checked with the payment service":
		default:
			f["holds: "+name] = value
		}
	}
	for _, banner := range p.Banners {
		if strings.Contains(banner, "must be paid back") {
			f["banner of refunds"] = banner
		}
	}
	for _, row := range p.Shards {
		f["shard "+row[0]+": state"], f["shard "+row[0]+": owner"], f["shard "+row[0]+": units"] = row[1], row[2], strings.Join(row[3:6], " ")
	}
	for _, row := range p.Processes {
		address, self := strings.CutSuffix(row[0], " (this one)")
		f["process "+address] = fmt.Sprintf("%s, %s shards, %s", row[1], row[2], row[5])
		if self {
			f["this process"] = address
		}
	}
	for _, row := range p.Moves {
		f["move of shard "+row[0]] = fmt.Sprintf("from %s to %s", strings.TrimPrefix(row[1], "no owner"), row[2])
	}
	for _, row := range p.Nodes {
		state, _, _ := strings.Cut(row[1], ":")
		f["node "+row[0]] = state
	}
	return f
}

// status runs 'salectl status --json' against the admin address of a process.
func (r *replica) status() (*report, error) {
	cmd := exec.Command("salectl", "status", "-f", "sale.yaml", "--json", "--admin", "http://"+r.admin, "--timeout", "20s")
	cmd.Dir = r.sale.dir
	out, err := cmd.Output() // fails if the ledger cannot be read
	read := new(report)
	if bad := json.Unmarshal(out, read); bad != nil {
		return nil, fmt.Errorf("%w: %w: %s", bad, err, out)
	}
	return read, nil
}

// agrees waits until the sale has a state, and the page of a process shows the same facts as a report of
// status before or after it.
func (r *replica) agrees(w *browser.Window, state string, has func(*report) bool) {
	r.sale.Helper()
	r.sale.eventually(func() error {
		before, err := r.status()
		if err != nil {
			return err
		}
		var shown page
		if err := json.Unmarshal([]byte(browser.Run(r.sale, w, readPage)), &shown); err != nil {
			return err
		}
		after, err := r.status()
		switch {
		case err != nil:
			return err
		case !has(before) || !has(after):
			return fmt.Errorf("not %s: %+v", state, after)
		}
		err = differences(shown.facts(), after.facts())
		if err != nil && differences(shown.facts(), before.facts()) == nil {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", state, err)
		}
		return nil
	})
	browser.Shoot(r.sale, w, state)
	r.sale.note("the page and status agree: %s", state)
}

// TestDashboardEqualsStatus compares the page of a process with 'salectl status --json' at one moment, in the
// states of a sale with holds that two processes serve.
func TestDashboardEqualsStatus(t *testing.T) {
	w := browser.Open(t)
	base, err := startHBase()
	services.Require(t, err)
	const far = "2126-11-11T12:00:00Z"
	s := apply(t, cluster, terms{stock: 1_234_567, shards: 6, ttl: pauseTTL, spec: "  opensAt: " + far + "\n  payment: {holdFor: 1h}\n"})
	first, second := s.add(), s.add()
	s.settled()
	first.ready()
	second.ready()
	browser.Width(t, w, 1280)
	browser.Go(t, w, "http://"+second.admin+"/dashboard/sales/"+s.name)
	browser.Until(t, w, `document.querySelector("#live").className === "live on"`)
	browser.Run(t, w, `document.querySelector("#shards-details").open = true`)
	is := func(phase string) func(*report) bool { return func(r *report) bool { return r.Phase == phase } }
	second.agrees(w, "before the opening", is("scheduled"))

	file := filepath.Join(s.dir, "sale.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	open := strings.Replace(string(text), "opensAt: "+far, "opensAt: 2026-01-01T00:00:00Z\n  closesAt: "+far, 1)
	if err := os.WriteFile(file, []byte(open), 0o600); err != nil {
		t.Fatal(err)
	}
	s.well("apply", "--yes")
	c := s.comeAs(&crowd{over: "http", rate: 200, once: true})
	c.some(400)
	c.leave()
	var held []string
	for _, a := range c.answered() {
		if a.answer.Outcome == api.Held {
			held = append(held, a.answer.Claim.ID)
		}
	}
	client, err := api.NewClient(api.Config{Servers: []string{"http://" + second.listen}, Sale: s.name})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	settle := func(claim string, how api.How, with api.Settlement) {
		t.Helper()
		if _, err := client.Settle(t.Context(), claim, how, with); err != nil {
			t.Fatal(err)
		}
	}
	for i, claim := range held[:120] {
		settle(claim, api.Confirm, api.Settlement{Payment: fmt.Sprint("p", i)})
	}
	for _, claim := range held[120:130] {
		settle(claim, api.Cancel, api.Settlement{Reason: "changed my mind"})
	}
	for i, claim := range held[:3] {
		settle(claim, api.Confirm, api.Settlement{Payment: fmt.Sprint("again", i)})
	}
	second.agrees(w, "selling with holds", func(r *report) bool { return r.Phase == "open" && r.Sold == 120 && r.Holds.RefundsDue == 3 })

	s.well("pause")
	second.agrees(w, "paused", is("paused"))
	s.well("resume")
	second.agrees(w, "open again", is("open"))

	t.Cleanup(func() { base.Continue() })
	if err := base.Pause(); err != nil {
		t.Fatal(err)
	}
	c = s.comeAs(&crowd{over: "http", rate: 20, name: "late-", once: true})
	unread := func(r *report) bool {
		return r.LedgerError != "" && slices.ContainsFunc(r.Problems, func(p api.SaleProblem) bool { return p.Kind == status.LedgerUnread.Name })
	}
	second.agrees(w, "without its ledger", unread)
	first.kill()
	second.agrees(w, "without its ledger and an owner", func(r *report) bool {
		return unread(r) && !slices.ContainsFunc(r.Shards, func(s current.ShardStatus) bool { return s.LeaseLeftSeconds > 0 && s.Owner == first.listen })
	})
	if err := base.Continue(); err != nil {
		t.Fatal(err)
	}
	second.ready()
	c.leave()
	second.agrees(w, "with its ledger again", is("open"))

	first.start()
	first.ready()
	s.settled()
	drain := func(undo bool) {
		t.Helper()
		out, err := exec.Command("salectl", "drain", "--admin", "http://"+second.admin, fmt.Sprint("--undo=", undo)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	drain(false)
	first.kill()
	second.agrees(w, "without an owner", func(r *report) bool {
		return !slices.ContainsFunc(r.Shards, func(s current.ShardStatus) bool { return s.LeaseLeftSeconds > 0 })
	})
	drain(true)
	second.agrees(w, "owned again", is("open"))

	s.well("close", "--yes")
	second.agrees(w, "closed", is("closed"))
}
