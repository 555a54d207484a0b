package cli

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"salectl/backends"
	"salectl/backends/embedded"
	"salectl/backends/quorum"
	"salectl/cli/terminal"
	"salectl/spec"
)

// notPasted are the texts whose commands no script pastes, with the test that runs these commands
// in the same state.
var notPasted = map[string]string{
	"%w; run 'salectl apply'": "HBase has no table: examples/testdata/cluster.txt",
	"Set it right; if it is right now and was wrong before, run 'salectl apply --trust-clock'.": "the clock is wrong: TestSuggestedForClock",
	"correct it; 'salectl status' shows what else can be done":                                  "the clock is wrong: TestSuggestedForClock",
}

var (
	// suggestion is a command in a text: in quotes, or up to the end of the line.
	suggestion = regexp.MustCompile(`(?m)'(salectl [a-z][^']*)'|(?:^ *|: )(salectl [a-z]+ .*)$`)
	// verb is one of a format, in a pattern.
	verb = regexp.MustCompile(`%(\\\[\d\\\])?[a-z]`)
	// nameFlags is what withFlags adds.
	nameFlags = regexp.MustCompile(` (-f|--sale) [^ ']+`)
)

// suggestions are the commands that the program suggests, and those of them that scripts have run.
type suggestions struct {
	commands map[string][]string // by the literal of the text

	mu      sync.Mutex
	pasted  map[string]bool // literal and command
	scripts int             // that have ended
	skipped bool            // one was
}

// newSuggestions looks for commands in the strings of the program, apart from its help. serve,
// which does not end, is not counted.
func newSuggestions(t *testing.T) *suggestions {
	t.Helper()
	var names []string
	for _, c := range (&program{out: &terminal.Answer{}}).newApp().Commands {
		if c.Name != "serve" {
			names = append(names, c.Name)
		}
	}
	command := regexp.MustCompile(`salectl (` + strings.Join(names, "|") + `)\b`)
	name := regexp.MustCompile(`^(<!-- |Every %s: )?salectl [a-z ]+`) // of a command that runs
	s := &suggestions{commands: make(map[string][]string), pasted: make(map[string]bool)}
	look := func(files *token.FileSet, n ast.Node) bool {
		if field, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := field.Key.(*ast.Ident); ok && (key.Name == "Description" || key.Name == "Usage") {
				return false
			}
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return true
		}
		for _, found := range suggestion.FindAllStringSubmatch(text, -1) {
			line := found[1] + found[2]
			switch {
			case strings.HasPrefix(line, "salectl serve"), found[1] == "" && !strings.Contains(line, "%"):
			case !command.MatchString(line):
				t.Errorf("%s: %q names a command that does not exist", files.Position(literal.Pos()), text)
			default:
				s.commands[text] = append(s.commands[text], line)
			}
		}
		if command.MatchString(suggestion.ReplaceAllString(text, "")) && !name.MatchString(text) {
			t.Errorf("%s: %q names a command without quotes", files.Position(literal.Pos()), text)
		}
		return true
	}
	skip := []string{"testdata", "sim", "services", "examples", "docs", "image", ".git", ".cache"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skip, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err == nil {
			ast.Inspect(file, func(n ast.Node) bool { return look(files, n) })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSuggestedWithFlags finds the commands whose flags are those of the command that suggests them.
func TestSuggestedWithFlags(t *testing.T) {
	found := newSuggestions(t).commands
	for _, command := range []string{"salectl claim %s", "salectl claims get %s", "salectl claims list %s"} {
		if found[command] == nil {
			t.Errorf("no script has to paste %q", command)
		}
	}
}

// paste is "[!] paste COMMAND [WORD|NAME=VALUE]...": a command that begins so and that the output of
// the last program suggests is run as it stands, with more words behind it and values in the place
// of names in capitals. It must succeed, or with ! fail.
func (s *suggestions) paste(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: [!] paste COMMAND [WORD|NAME=VALUE]...")
	}
	output, line := ts.ReadFile("stdout")+ts.ReadFile("stderr"), ""
	for _, found := range suggestion.FindAllStringSubmatch(output, -1) {
		if line == "" && strings.HasPrefix(found[1]+found[2], args[0]) {
			line = found[1] + found[2]
		}
	}
	if line == "" {
		ts.Fatalf("there is no %q in %s", args[0], output)
	}
	s.ran(output, line)
	for _, more := range args[1:] {
		if name, value, is := strings.Cut(more, "="); is && strings.Contains(line, name) {
			line = strings.ReplaceAll(line, name, value)
		} else {
			line += " " + more
		}
	}
	if err := ts.Exec("sh", "-c", line); (err != nil) != neg {
		ts.Fatalf("%s: %v", line, err)
	}
}

// ran notes which suggestions an output has of which a command was run.
func (s *suggestions) ran(output, line string) {
	pattern := func(format string) *regexp.Regexp {
		return regexp.MustCompile(verb.ReplaceAllString(regexp.QuoteMeta(nameFlags.ReplaceAllString(format, "")), `[^'\n]*`))
	}
	output, line = nameFlags.ReplaceAllString(output, ""), nameFlags.ReplaceAllString(line, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	for text, commands := range s.commands {
		for _, command := range commands {
			if pattern(text).MatchString(output) && pattern(command).MatchString(line) {
				s.pasted[text+"\n"+command] = true
			}
		}
	}
}

// check fails the test if a suggestion was not run by the scripts, of which there are so many.
func (s *suggestions) check(t *testing.T, scripts int) {
	if t.Failed() || s.skipped || s.scripts < scripts {
		return // of a part of them nothing follows
	}
	for text, commands := range s.commands {
		for _, command := range commands {
			if pasted := s.pasted[text+"\n"+command]; pasted == (notPasted[text] != "") {
				t.Errorf("%q suggests %q; a script pastes it: %v; notPasted has %q", text, command, pasted, notPasted[text])
			}
		}
	}
	for text := range notPasted {
		if s.commands[text] == nil {
			t.Errorf("notPasted has %q, which no text suggests", text)
		}
	}
}

// condition is "ci": in CI, where all scripts run; or "redis": there is a redis-server.
func (s *suggestions) condition(name string) (bool, error) {
	ci := os.Getenv("CI") == "true"
	if name != "redis" {
		return name == "ci" && ci, nil
	}
	_, err := exec.LookPath("redis-server")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped = err != nil && !ci
	return !s.skipped, nil
}

// ended counts a script.
func (s *suggestions) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts++
}

// A wrong clock is no state that a script can bring about: where a time server keeps the host's
// clock right, the store believes it.
func TestSuggestedForClock(t *testing.T) {
	if embedded.ThisHost().Booted == nil {
		t.Skip("there is no clock here that cannot be set")
	}
	path := applySale(t, "tickets")
	run := func(want int, args ...string) string {
		t.Helper()
		c := newCapture()
		c.open = func(sale spec.Sale, _ *slog.Logger) (*backends.Store, error) {
			logs, err := embedded.OpenLogs(sale.Embedded.Dir)
			if err != nil {
				return nil, err
			}
			host := embedded.ThisHost()
			host.Kept = nil
			node, err := embedded.OpenNode(sale.Embedded.Dir, host)
			return &backends.Store{Logs: logs, Nodes: []quorum.Node{node}, Closer: func() error { return errors.Join(node.Close(), logs.Close()) }}, err
		}
		if code := c.run(append([]string{"salectl"}, args...), nil); code != want {
			t.Fatalf("%v: exit code %d, want %d\n%s", args, code, want, &c.err)
		}
		return c.out.String() + c.err.String()
	}
	conn, err := sqlite.OpenConn(filepath.Join(filepath.Dir(path), ".salectl", "locks.db"), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteTransient(conn, "UPDATE clock SET wall = wall - 3600000000", nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "stock: 10", "stock: 12", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "run 'salectl apply --trust-clock -f " + quoted(path) + "'"
	for _, said := range []string{run(0, "plan", "-f", path), run(3, "apply", "-f", path, "--yes"), run(0, "status", "-f", path)} {
		if !strings.Contains(said, want) {
			t.Fatalf("%s, want %s", said, want)
		}
	}
	run(0, "apply", "--trust-clock", "-f", path, "--yes")
	if got := run(0, "status", "-f", path); strings.Contains(got, "clock was set") {
		t.Error(got)
	}
}
