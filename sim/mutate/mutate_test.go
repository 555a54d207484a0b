package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is a small one with the mutants that a test is about.
func module(t *testing.T, code, tests string) string {
	t.Helper()
	root := t.TempDir()
	text, err := os.ReadFile(filepath.Join("mutation", "mutation.go"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"go.mod": "module salectl\n\ngo 1.26\n", "sim/mutate/mutation/mutation.go": string(text),
		"code/code.go": code, "code/code_test.go": tests,
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func loaded(t *testing.T, root string) ([]pkg, []mutant) {
	t.Helper()
	all, err := load(t.Context(), root, []target{{folder: "code"}})
	if err != nil {
		t.Fatal(err)
	}
	return all, number(all)
}

// Each kind of mutant, by its name.
func TestOperators(t *testing.T) {
	for code, want := range map[string][]string{
		"if a < b { return 1, true }; return a, true": {
			"a < b → a <= b", "a < b → false", "a < b → true", "true → false", "true → false #2"},
		"if a == 0 || b == 0 { a = 3; b = 4 }; return a, p == nil": {
			"a == 0 || b == 0 → a == 0", "a == 0 || b == 0 → b == 0", "a == 0 || b == 0 → true",
			"a = 3 → nothing", "b = 4 → nothing", "p == nil → !(p == nil)"},
		"if a > 0 && p != nil { f() }; return a, !ok": {
			"a > 0 && p != nil → a > 0", "a > 0 && p != nil → p != nil", "a > 0 && p != nil → false", "a > 0 → a >= 0", "!ok → ok"},
		"for i := 0; i < a; i++ { if i == b { continue }; b += a }; return b, ok": {
			"i < a → i <= a", "i < a → false", "i == b → false", "i == b → true", "continue → break", "b += a → b -= a", "b += a → nothing"},
		"switch { case ok: a++; f() }; return a%2 - 3, ok": {
			"ok → false", "ok → true", "a++ → a--", "a++ → nothing", "f() → nothing", "a%2 - 3 → a%2 + 3", "a%2 → a * 2"},
		"const c = 2 * 3; const d = 4 > 3; if a > c { panic(a) }; return c + 1, d": {
			"a > c → a >= c", "a > c → false", "a > c → true"},
		`s := "a"; s += "b" + s; return len(s), ok`: {`s += "b" + s → nothing`},
	} {
		t.Run(code, func(t *testing.T) {
			_, mutants := loaded(t, module(t, "package code\n\nvar p *int\n\nfunc f() {}\n\nfunc it(a, b int, ok bool) (int, bool) {\n"+code+"\n}\n", "package code\n"))
			var got []string
			for _, m := range mutants {
				got = append(got, strings.TrimPrefix(m.name(), "code/code.go it: "))
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// A mutant that no test comes by, one that a test comes by and does not notice,
// one that it does, and one that goes on for ever; and what is noted.
func TestTrial(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds many programs")
	}
	const code = `package code

func used(n int) int {
	sum := 0
	for n > 0 {
		n--
		sum += 2 // or so
	}
	if sum > 100 { // never
		sum = 7
	}
	return sum
}

func stopped(n int) int {
	done := make(chan int, 1)
	done <- n
	return <-done
}

func unused() bool { return false }
`
	root := module(t, code, "package code\n\nimport \"testing\"\n\nfunc TestUsed(t *testing.T) {\n\tif stopped(used(3)) != 6 {\n\t\tt.Error(used(3))\n\t}\n}\n")
	all, mutants := loaded(t, root)
	trial, err := newTrial(t.Context(), root, all, options{}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer trial.close()
	known := notes{"code/code.go used: sum > 100 → sum >= 100": {same: true, why: "the sum is never 100"}}
	results, err := trial.judge(t.Context(), mutants, known)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]outcome{
		"used: n > 0 → n >= 0": byTest, "used: n > 0 → false": byTest, "used: n-- → n++": timedOut, "used: n-- → nothing": timedOut,
		"used: sum += 2 → sum -= 2": byTest, "used: sum += 2 → nothing": byTest,
		"used: sum > 100 → sum >= 100": noted, "used: sum > 100 → false": survives, "used: sum > 100 → true": byTest,
		"stopped: done <- n → nothing": byTest, // the runtime sees that all stand still
		"unused: false → true":         notReached,
	}
	for _, r := range results {
		name := strings.TrimPrefix(r.name(), "code/code.go ")
		if r.outcome != want[name] {
			t.Errorf("%s: got %s, want %s", name, words[r.outcome], words[want[name]])
		}
		delete(want, name)
		if r.outcome == byTest && r.by != "TestUsed" && !strings.HasPrefix(r.by, "fatal error") {
			t.Errorf("%s: found by %q", name, r.by)
		}
	}
	for name := range want {
		t.Errorf("there is no mutant %q", name)
	}
	if err := verdict(results, false); err == nil || !strings.Contains(err.Error(), "2 of 10") {
		t.Errorf("got %v, want an error that says 2 of 10", err)
	}
	var table strings.Builder
	writeTable(&table, results)
	const line = "| code    | 11      | 6        | 0        | 2         | 1        | 0    | 1       | 1           |"
	if !strings.Contains(table.String(), line) {
		t.Errorf("got %s\nwant a line\n%s", table.String(), line)
	}
}

func TestNotes(t *testing.T) {
	mutants := []mutant{{file: "a.go", function: "f", was: "x", is: "y"}, {file: "a.go", function: "f", was: "x", is: "y", again: 1}}
	for name, c := range map[string]struct{ text, want string }{
		"good":           {"# all\n\na.go f: x → y\n  same: z is the larger: always\na.go f: x → y #2\n\topen: a message\n", ""},
		"stale":          {"a.go g: x → y\n  same: z\n", ":1: there is no such mutant"},
		"without reason": {"a.go f: x → y\n  same\n", ":2: a note begins with same: or open:"},
		"of no mutant":   {"  same: z\n", ":1: a note without a mutant"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "notes.txt")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := readNotes(file, mutants)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want an error that says %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := got[mutants[0].name()]; !n.same || n.why != "z is the larger: always" {
				t.Errorf("got %+v", n)
			}
			if n, ok := got[mutants[1].name()]; !ok || n.same {
				t.Errorf("got %+v, %v", n, ok)
			}
		})
	}
}

// The notes of this repository are of mutants that there are.
func TestNotesOfTheRepository(t *testing.T) {
	if err := run(t.Context(), []string{"-list"}, t.Output()); err != nil {
		t.Error(err)
	}
}
