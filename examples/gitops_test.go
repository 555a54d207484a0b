package examples

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"salectl/internal/services"
)

const (
	planMarker  = "<!-- salectl plan: production -->\n"
	driftMarker = "<!-- salectl plan: drift of production -->\n"
)

// onEach runs a test on both platforms, with sales in local files.
func onEach(t *testing.T, test func(t *testing.T, s *site, p pipelines, ledger string)) {
	services.Require(t, services.PipelinePrograms())
	for name, of := range map[string]func(*site) pipelines{
		"GitHub": func(s *site) pipelines { return onGitHub{s} },
		"GitLab": func(s *site) pipelines { return onGitLab{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "ledger")
			s := newSite(t, "  embedded: {dir: "+dir+"}\n")
			test(t, s, of(s), dir)
		})
	}
}

// expect compares a run with an exit code, and its output with patterns.
func expect(t *testing.T, r ran, code int, patterns ...string) {
	t.Helper()
	if r.jobs == 0 || r.code != code {
		t.Fatalf("%d jobs ended with %d, want %d:\n%s", r.jobs, r.code, code, r.out)
	}
	contains(t, r.out, patterns...)
}

func contains(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			t.Fatalf("no %q in:\n%s", p, text)
		}
	}
}

// A request is planned in one comment, and its merge applies that very plan. One that has become
// stale changes nothing, and is planned anew.
func TestPipelinesApplyWhatWasPlanned(t *testing.T) {
	onEach(t, func(t *testing.T, s *site, p pipelines, ledger string) {
		for range 2 { // the bot's comment is on the second page
			s.forge.comment(1, planMarker+"What a person writes is left alone.")
		}
		s.branch("more", func() { s.set("film-night", "stock", "  stock: 110") })
		expect(t, p.plan(1, "more"), 0)
		comments := s.forge.bots(1)
		if len(comments) != 1 || !strings.HasPrefix(comments[0].body, planMarker+"## Plan of `production`: 2 sales to create\n") || !strings.Contains(comments[0].body, "There are 110 units") {
			t.Fatalf("the comments are %+v", comments)
		}
		if _, err := os.Stat(ledger); err == nil {
			t.Error("planning has made a ledger")
		}

		// The next push updates it.
		s.branch("more", func() { s.set("film-night", "stock", "  stock: 120") })
		planned := p.plan(1, "more")
		expect(t, planned, 0)
		first := comments[0].id
		if comments = s.forge.bots(1); len(comments) != 1 || comments[0].id != first || !strings.Contains(comments[0].body, "There are 120 units") {
			t.Fatalf("the comments are %+v", comments)
		}

		// A request of a fork runs nothing, and its artifact is not taken.
		if r := p.fork(2, "more"); r.jobs != 0 {
			t.Errorf("for a fork %d jobs were run", r.jobs)
		}
		p.forged(1, s.version("more"), []byte("{}"))
		expect(t, p.merge(1, "more"), 0, `Applied generation 1 of film-night`, `Applied generation 1 of museum-day`)
		var plan []byte
		for _, text := range planned.kept[0].files {
			plan = text
		}
		digest := regexp.MustCompile(`(?s)"sale": "film-night".*?"digest": "([0-9a-f]{64})"`).FindSubmatch(plan)
		if digest == nil || !strings.Contains(s.salectl("history", "-f", "sales", "--json"), string(digest[1])) {
			t.Errorf("the plan that was applied is not the one of the request, %s", digest)
		}
		expect(t, p.push(), 0, `No changes: generation 1 of film-night is applied already`) // the job is run again

		// Somebody pauses the sale after the plan was made.
		s.branch("most", func() { s.set("film-night", "stock", "  stock: 130") })
		expect(t, p.plan(3, "most"), 0)
		s.salectl("pause", "-f", "sales", "--sale", "film-night")
		expect(t, p.merge(3, "most"), 5, `the sale has changed since the plan was made`, `ERROR: The plan is stale|::error::The plan is stale`, `Plan anew: `)
		contains(t, s.salectl("list", "-f", "sales"), `film-night +paused +1 +2 +120 `)
		plan2, apply := p.anew()
		expect(t, plan2, 0, `stock +120 -> 130`)
		expect(t, apply, 0, `Applied generation 3 of film-night`)

		// A commit that no request has planned.
		s.set("museum-day", "stock", "  stock: 50")
		s.commit("Pushed to main")
		expect(t, p.push(), 5, `No plan was made of the files in sales`, `Plan anew: `)
		_, apply = p.anew()
		expect(t, apply, 0, `Applied generation 2 of museum-day`)

		// What cannot be planned is reported in the comment, and fails.
		s.branch("locks", func() { s.set("museum-day", "lockCount", "  lockCount: 3") })
		expect(t, p.plan(4, "locks"), 3)
		if comments := s.forge.bots(4); len(comments) != 1 || !strings.Contains(comments[0].body, "1 sale without a plan") {
			t.Errorf("the comments are %+v", comments)
		}
	})
}

// A repository has the sales of two environments, with values for each: a request is planned for
// both, and its merge is applied to staging first. If that fails, production does not begin.
func TestPipelinesOfTwoEnvironments(t *testing.T) {
	onEach(t, func(t *testing.T, s *site, p pipelines, ledger string) {
		s.environments = []string{"staging", "production"}
		values := func(staging, production int) {
			for name, stock := range map[string]int{"staging": staging, "production": production} {
				s.put("sales/"+name+".env", fmt.Sprintf("FILM_NIGHT_STOCK=%d\nLEDGER='%s'\n", stock, filepath.Join(ledger, name)))
			}
		}
		list := func(environment string) string {
			out, err := s.try("env", "FILM_NIGHT_STOCK=20", "LEDGER="+filepath.Join(ledger, environment), s.program, "list", "-f", "sales")
			if err != nil {
				t.Fatal(err, out)
			}
			return out
		}
		values(10, 100)
		s.set("film-night", "name", "  name: film-night\n  env: [FILM_NIGHT_STOCK, LEDGER]")
		s.set("film-night", "stock", "  stock: ${FILM_NIGHT_STOCK}")
		s.set("film-night", "embedded", "  embedded: {dir: \"${LEDGER}\"}")
		s.set("museum-day", "name", "  name: museum-day\n  env: [LEDGER]")
		s.set("museum-day", "embedded", "  embedded: {dir: \"${LEDGER}\"}")
		s.commit("Two environments")
		s.branch("more", func() { values(20, 200) })
		expect(t, p.plan(1, "more"), 0)
		comments := s.forge.bots(1)
		if len(comments) != 2 {
			t.Fatalf("the comments are %+v", comments)
		}
		for i, want := range []struct {
			name  string
			stock int
		}{{"staging", 20}, {"production", 200}} {
			slices.SortFunc(comments, func(a, b note) int { return strings.Compare(b.body, a.body) })
			contains(t, comments[i].body, fmt.Sprintf("^<!-- salectl plan: %s -->\n## Plan of `%[1]s`: 2 sales to create\n", want.name),
				fmt.Sprintf("(?m)^Environment: `FILM_NIGHT_STOCK=%d`, `LEDGER=.*/%s`$", want.stock, want.name), fmt.Sprintf("There are %d units", want.stock))
		}
		expect(t, p.merge(1, "more"), 0, `(?s)Applied generation 1 of film-night.*Applied generation 1 of film-night`)
		contains(t, list("staging"), `film-night .* 20 `)
		contains(t, list("production"), `film-night .* 200 `)
		expect(t, p.nightly(), 0)

		s.branch("most", func() { values(30, 300) })
		expect(t, p.plan(2, "most"), 0)
		if out, err := s.try("env", "FILM_NIGHT_STOCK=20", "LEDGER="+filepath.Join(ledger, "staging"), s.program, "pause", "-f", "sales", "--yes"); err != nil {
			t.Fatal(err, out)
		}
		stale := p.merge(2, "most")
		if expect(t, stale, 5, `The plan is stale`); stale.jobs != 1 {
			t.Errorf("%d jobs were run", stale.jobs)
		}
		contains(t, list("production"), `film-night .* 200 `)
		plan, apply := p.anew()
		expect(t, plan, 0)
		expect(t, apply, 0)
		contains(t, list("staging"), `film-night .* 30 `)
		contains(t, list("production"), `film-night .* 300 `)
	})
}

// Where the platform does not answer, nothing is taken for an answer: neither a second comment
// is written, nor does apply believe that there is no plan.
func TestPipelinesOfAPlatformThatFails(t *testing.T) {
	onEach(t, func(t *testing.T, s *site, p pipelines, ledger string) {
		s.branch("more", func() { s.set("film-night", "stock", "  stock: 110") })
		expect(t, p.plan(1, "more"), 0)
		comments, plans := []string{"/comments"}, []string{"/artifacts"}
		if _, is := p.(onGitLab); is {
			comments, plans = []string{"/notes", "/user"}, []string{"/commits/", "/pipelines", "/jobs", "/artifacts/"}
		}
		for _, path := range comments {
			s.forge.breaks(path)
			if r := p.plan(1, "more"); r.code == 0 {
				t.Errorf("the plan has not failed:\n%s", r.out)
			}
		}
		if n := len(s.forge.bots(1)); n != 1 {
			t.Errorf("there are %d comments", n)
		}
		s.forge.breaks(plans[0])
		failed := []ran{p.merge(1, "more")}
		for _, path := range plans[1:] {
			s.forge.breaks(path)
			failed = append(failed, p.push())
		}
		for _, r := range failed {
			if r.code == 0 || r.code == 5 || strings.Contains(r.out, "No plan was made") {
				t.Errorf("an answer of 500 counts as none:\n%s", r.out)
			}
		}
		s.forge.breaks("")
		expect(t, p.push(), 0, `Applied generation 1 of film-night`)
		if s.edit("ci/salectl.env", regexp.MustCompile(`SHA256=.`), "SHA256=x") != 1 {
			t.Fatal("ci/salectl.env has no SHA-256")
		}
		s.commit("Another program")
		expect(t, p.nightly(), 1, `is not the salectl whose SHA-256`)
	})
}

// What was changed by hand is in one issue, with the reason, until it is mended.
func TestPipelinesFindDrift(t *testing.T) {
	onEach(t, func(t *testing.T, s *site, p pipelines, ledger string) {
		s.salectl("apply", "-f", "sales", "--yes")
		s.forge.comment(0, driftMarker+"What a person writes is left alone.")
		expect(t, p.nightly(), 0)
		conn, err := sqlite.OpenConn(filepath.Join(ledger, "locks.db"), sqlite.OpenReadWrite)
		if err == nil {
			err = sqlitex.ExecuteTransient(conn, "DELETE FROM markers", nil)
			conn.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		expect(t, p.nightly(), 2)
		issues := s.forge.botIssues()
		if len(issues) != 1 || issues[0].title != "Sales of production differ from their files" {
			t.Fatalf("the issues are %+v", issues)
		}
		contains(t, issues[0].body, "^"+driftMarker, `node/embedded +marker missing -> abstaining +# its marker is gone: it was restarted or flushed`)
		s.salectl("pause", "-f", "sales", "--sale", "museum-day")
		s.set("museum-day", "stock", "  stock: 40\n  phase: open")
		s.commit("The phase")
		expect(t, p.nightly(), 2)
		if again := s.forge.botIssues(); len(again) != 1 || again[0].id != issues[0].id || !strings.Contains(again[0].body, "phase") {
			t.Errorf("the issues are %+v", again)
		}
		s.salectl("apply", "-f", "sales", "--yes")
		expect(t, p.nightly(), 0)
		if issues = s.forge.botIssues(); len(issues) != 0 || len(s.forge.open()) != 1 {
			t.Errorf("the issues are %+v, and %d are open", issues, len(s.forge.open()))
		}
	})
}

// Sales that have ended are exported, kept and destroyed: no other, and none that has changed
// since its export.
func TestPipelinesDestroyWhatHasEnded(t *testing.T) {
	onEach(t, func(t *testing.T, s *site, p pipelines, ledger string) {
		s.set("film-night", "opensAt", "")
		s.commit("Open now")
		s.salectl("apply", "-f", "sales", "--yes")
		s.sell("film-night", 3)
		s.set("film-night", "closesAt", "  closesAt: 2026-01-02T00:00:00Z")
		s.set("museum-day", "protect", "")
		s.set("museum-day", "opensAt", "")
		s.set("museum-day", "closesAt", time.Now().Add(-time.Hour).UTC().Format("  closesAt: 2006-01-02T15:04:05Z"))
		s.commit("The end")
		s.salectl("apply", "-f", "sales", "--yes")
		contains(t, s.salectl("list", "-f", "sales"), `film-night +ended .* 3 +sales/film`, `museum-day +ended`)

		// Somebody prolongs the sale between its export and its end. The other one has ended today.
		s.before["ci/destroy-ended.sh"] = func() {
			s.set("film-night", "closesAt", "  closesAt: 2026-01-03T00:00:00Z")
			s.commit("A day longer")
			s.salectl("apply", "-f", "sales", "--yes")
		}
		expect(t, p.destroy(), 5, `film-night has changed since its export, and was not destroyed`)
		contains(t, s.salectl("list", "-f", "sales"), `film-night +ended`, `museum-day +ended`)

		s.set("museum-day", "closesAt", "  closesAt: 2026-01-02T00:00:00Z")
		s.salectl("apply", "-f", "sales", "--yes")
		s.set("museum-day", "name", "  name: museum-day\n  protect: true")
		s.commit("Keep it")
		s.salectl("apply", "-f", "sales", "--yes")
		var before []*artifact
		s.before["ci/destroy-ended.sh"] = func() {
			s.forge.mu.Lock()
			defer s.forge.mu.Unlock()
			before = slices.Clone(s.forge.artifacts)
		}
		r := p.destroy()
		expect(t, r, 0, `film-night has ended:`, `film-night is destroyed`)
		contains(t, s.salectl("list", "-f", "sales"), `film-night +destroyed`, `museum-day +ended`)
		if len(r.kept) != 2 || !slices.Contains(before, r.kept[0]) {
			t.Fatalf("kept are %d artifacts, the first not before anything was deleted", len(r.kept))
		}
		for i, form := range []string{`^film-night-[0-9a-f]{16}\.live\.ndjson$`, `^film-night-[0-9a-f]{16}\.ndjson$`} {
			s.proves(r.kept[i], form, "3 of 100 units sold to 3 users")
		}
		s.before = nil
		expect(t, p.destroy(), 0, `No sale is to be destroyed`)

		// Its file has no plan any more, until it is removed.
		expect(t, p.nightly(), 3)
		s.branch("remove", func() { s.git("rm", "--quiet", "sales/film-night.yaml") })
		expect(t, p.plan(9, "remove"), 0, "no changes")
		expect(t, p.merge(9, "remove"), 0)
		expect(t, p.nightly(), 0)
	})
}

// sell sells a unit to so many users, one after another.
func (s *site) sell(sale string, users int) {
	t := s.t
	t.Helper()
	cmd := exec.Command(s.program, "serve", "-f", "sales", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json")
	cmd.Dir = s.repo
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}()
	url := regexp.MustCompile(`"url":"([^"]+)"`)
	for lines := bufio.NewScanner(log); ; {
		if !lines.Scan() {
			t.Fatal("the server has ended")
		}
		if found := url.FindSubmatch(lines.Bytes()); found != nil {
			go func() {
				for lines.Scan() {
				}
			}()
			for i := range users {
				s.salectl("claim", "--server", string(found[1]), "--sale", sale, "--user", fmt.Sprint("user-", i))
			}
			return
		}
	}
}

// proves audits the export of an artifact whose name is of that form.
func (s *site) proves(a *artifact, form, want string) {
	t := s.t
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		if !regexp.MustCompile(form).MatchString(filepath.Base(name)) {
			continue
		}
		dir := t.TempDir()
		for _, ending := range []string{"", ".sha256"} {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)+ending), a.files[name+ending], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		contains(t, s.salectl("audit", "--export", filepath.Join(dir, filepath.Base(name))), want)
		return
	}
	t.Errorf("the artifact %s has no %s but %q", a.name, form, slices.Sorted(maps.Keys(a.files)))
}

// The same on Redis and HBase, where jobs that read and jobs that write have users of their own.
func TestPipelinesOnServers(t *testing.T) {
	services.Require(t, services.PipelinePrograms())
	node, err := services.StartRedis(context.Background(), services.RedisOptions{Dir: t.TempDir(), Args: []string{
		"--user", "reader", "on", ">secret-read", "~salectl:*", "+eval", "+evalsha", "+info", "+time", "+get", "+pttl", "+hmget", "+scan", "+exists", "+llen", "+hlen", "+xlen", "+config|get",
		"--user", "writes", "on", ">secret-write", "~*", "&*", "+@all",
	}})
	services.Require(t, err)
	defer node.Stop()
	hbase, err := shared()
	services.Require(t, err)
	s := newSite(t, fmt.Sprintf("  redis: {nodes: [%q], usernameEnv: SALE_REDIS_USER, passwordEnv: SALE_REDIS_PASSWORD}\n  hbase: {zookeeper: [%q], table: sales_pipelines_%d}\n", node.Addr(), hbase.Zookeeper(), sharedTables.Add(1)))
	s.read = []string{"SALE_REDIS_USER=reader", "SALE_REDIS_PASSWORD=secret-read"}
	s.write = []string{"SALE_REDIS_USER=writes", "SALE_REDIS_PASSWORD=secret-write"}
	p := onGitHub{s}
	s.branch("first", func() { s.set("film-night", "stock", "  stock: 110") })
	expect(t, p.plan(1, "first"), 0)
	expect(t, p.merge(1, "first"), 0, `Applied generation 1 of film-night`, `Applied generation 1 of museum-day`)
	expect(t, p.nightly(), 0)
	if out, err := exec.Command("redis-cli", "-u", "redis://"+node.Addr(), "FLUSHALL").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expect(t, p.nightly(), 2, `its marker is gone`)
	s.salectl("apply", "-f", "sales", "--yes")
	s.set("film-night", "opensAt", "")
	s.set("film-night", "closesAt", "  closesAt: 2026-01-02T00:00:00Z")
	s.commit("The end")
	s.salectl("apply", "-f", "sales", "--yes")
	r := p.destroy()
	expect(t, r, 0, `film-night is destroyed`)
	if strings.Contains(r.out, "was not cleaned") {
		t.Errorf("the job that destroys has no user that may write:\n%s", r.out)
	}
	s.proves(r.kept[1], `^film-night-[0-9a-f]{16}\.ndjson$`, "0 of 110 units sold")
}

// The files are what the platforms take, and a broken one is not.
func TestPipelinesFitTheirSchemas(t *testing.T) {
	schemas, err := services.CheckJSONSchema()
	services.Require(t, err)
	actionlint := []string{"go", "run", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12", "-shellcheck=", "-pyflakes=", "-no-color"}
	github := []string{schemas, "--builtin-schema", "vendor.github-workflows"}
	gitlab := []string{schemas, "--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"}
	workflows, err := filepath.Glob("gitops/github/*.yml")
	if err != nil || len(workflows) != 4 {
		t.Fatalf("the workflows are %q, %v", workflows, err)
	}
	broken := func(file, from, to string) string {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte(from)) {
			t.Fatalf("%s has no %s, %v", file, from, err)
		}
		path := filepath.Join(t.TempDir(), "broken.yml")
		if err := os.WriteFile(path, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		check []string
		files []string
		want  string // of what fails
	}{
		{actionlint, workflows, ""},
		{actionlint, []string{broken("gitops/github/plan.yml", "steps.plan.outputs", "steps.plans.outputs")}, `property "plans" is not defined`},
		{github, workflows, ""},
		{github, []string{broken("gitops/github/apply.yml", "actions: read", "actions: readall")}, "actions"},
		{gitlab, []string{"gitops/gitlab/gitlab-ci.yml"}, ""},
		{gitlab, []string{broken("gitops/gitlab/gitlab-ci.yml", "access: developer", "access: everybody")}, "access"},
	} {
		out, err := exec.Command(c.check[0], slices.Concat(c.check[1:], c.files)...).CombinedOutput()
		if (err != nil) != (c.want != "") || !strings.Contains(string(out), c.want) {
			t.Errorf("%s %v: %v, want %q\n%s", c.check[0], c.files, err, c.want, out)
		}
	}
}
