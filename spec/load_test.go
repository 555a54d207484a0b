package spec

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// aSale is a valid document.
func aSale(name string) string {
	return "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: " + name + "}\n" +
		"spec: {stock: 10, lockCount: 2, embedded: {}}\n"
}

// write puts files into a new folder and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func saleNames(sales []Sale) []string {
	names := []string{}
	for _, s := range sales {
		names = append(names, s.Name)
	}
	return names
}

// messages are the problems of err, short.
func messages(err error) []string {
	var all []string
	for _, p := range Problems(err) {
		short := *p
		short.File = filepath.Base(p.File)
		all = append(all, short.Error())
	}
	return all
}

func TestLoadReadsAllFields(t *testing.T) {
	path := filepath.Join(goodSpecs, "servers.yaml")
	got, _, err := Load([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Sale{{
		Name: "movie-tickets", Run: 2, Stock: 100, LockCount: 5, PerUserLimit: 2,
		OpensAt:  time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC),
		ClosesAt: time.Date(2026, 11, 11, 13, 0, 0, 500e6, time.UTC),
		LockTTL:  Duration(2500 * time.Millisecond),
		Engine:   EngineLedger, Ack: AckLedger,
		Redis: &Redis{
			Nodes:       []string{"127.0.0.1:6379", "redis-2.example:6379", "[2001:db8::1]:6379"},
			UsernameEnv: "REDIS_USERNAME", PasswordEnv: "REDIS_PASSWORD", TLS: true,
		},
		HBase: &HBase{Zookeeper: []string{"zk-1:2181", "zk-2:2181"}, ZookeeperRoot: "/hbase-unsecure", Table: "shop:sales"},
		File:  path + ":2",
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLoadFillsDefaults(t *testing.T) {
	embedded, _, err := Load([]string{"-"}, strings.NewReader(aSale("tickets")))
	if err != nil {
		t.Fatal(err)
	}
	want := Sale{Name: "tickets", Run: 1, Stock: 10, LockCount: 2, PerUserLimit: 1, LockTTL: Duration(3 * time.Second),
		Engine: EngineLedger, Ack: AckLedger, Embedded: &Embedded{Dir: ".salectl"}, File: "<stdin>:1"}
	if !reflect.DeepEqual(embedded[0], want) {
		t.Errorf("got  %+v\nwant %+v", embedded[0], want)
	}
	servers, _, err := Load([]string{"-"}, strings.NewReader(strings.Replace(aSale("tickets"), "embedded: {}",
		`redis: {nodes: ["a:1"]}, hbase: {zookeeper: ["z:1"], table: "default:sales"}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	wantHBase := &HBase{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/hbase", Table: "sales"}
	if got := servers[0]; !reflect.DeepEqual(got.HBase, wantHBase) || got.Redis.TLS || got.Embedded != nil {
		t.Errorf("got %+v %+v", got.HBase, got.Redis)
	}
}

func TestLoadRedPackets(t *testing.T) {
	path := filepath.Join(goodSpecs, "red-packet.yaml")
	got, _, err := Load([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	common := func(name string, line string) Sale {
		return Sale{Name: name, Run: 1, LockCount: 2, PerUserLimit: 1, LockTTL: Duration(3 * time.Second), Engine: EngineRedis, File: path + ":" + line}
	}
	all := common("all", "2")
	all.Stock, all.LockCount, all.Ack, all.Backlog = 100, 4, AckRedis, 5000
	all.RedPacket = &RedPacket{Currency: "KWD", Scale: 3, Total: 100_000, Min: 10, Split: SplitEven}
	all.Redis, all.HBase = &Redis{Nodes: []string{"a:6379", "b:6379"}}, &HBase{Zookeeper: []string{"z:2181"}, ZookeeperRoot: "/hbase", Table: "sales"}
	defaults := common("defaults", "24")
	defaults.Stock, defaults.Ack, defaults.Backlog = 3, AckLedger, DefaultBacklog
	defaults.RedPacket = &RedPacket{Currency: "CNY", Scale: 2, Total: 3, Min: 1, Split: SplitRandom}
	defaults.Redis, defaults.Embedded = &Redis{Nodes: []string{"a:6379"}}, &Embedded{Dir: goodSpecs + "/.salectl"}
	yen := common("yen", "39")
	yen.Stock, yen.Ack, yen.Backlog = MaxRedisStock, AckLedger, MaxBacklog
	yen.RedPacket = &RedPacket{Currency: "JPY", Total: MaxTotal, Min: 1, Split: SplitFixed}
	yen.Redis, yen.Embedded = defaults.Redis, defaults.Embedded
	plain := common("plain", "53")
	plain.Stock, plain.Ack, plain.Backlog = 2, AckLedger, 1
	plain.Redis, plain.Embedded = defaults.Redis, defaults.Embedded
	for i, want := range []Sale{all, defaults, yen, plain} {
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("got  %+v %+v\nwant %+v %+v", got[i], got[i].RedPacket, want, want.RedPacket)
		}
	}
}

func TestLoadSeveralDocuments(t *testing.T) {
	path := filepath.Join(goodSpecs, "several.yaml")
	sales, _, err := Load([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type short struct{ name, dir, file string }
	var got []short
	for _, s := range sales {
		got = append(got, short{s.Name, s.Embedded.Dir, s.File})
	}
	want := []short{
		{"first", goodSpecs + "/data/first", path + ":4"},
		{"in-json", "/var/lib/salectl", path + ":11"},
		{"2026", "../testdata/specs/shared", path + ":14"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestLoadPaths(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml": aSale("b"), "a.yml": aSale("a"), "c.yaml": aSale("c1") + "---\n" + aSale("c2"),
		"notes.txt": "no sale", ".hidden.yaml": "no sale", "below/d.yaml": aSale("d"), "folder.yaml/e.yaml": aSale("e"),
	})
	if err := os.Symlink(filepath.Join(dir, "below"), filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		paths []string
		want  []string
	}{
		"a file":               {[]string{in("b.yaml")}, []string{"b"}},
		"a folder, not deeper": {[]string{dir}, []string{"a", "b", "c1", "c2"}},
		"stdin":                {[]string{"-"}, []string{"in"}},
		"in the order named":   {[]string{in("c.yaml"), "-", in("b.yaml")}, []string{"c1", "c2", "in", "b"}},
		"twice is once":        {[]string{in("b.yaml"), "-", dir, dir, "-", in("below/../b.yaml")}, []string{"b", "in", "a", "c1", "c2"}},
	} {
		t.Run(name, func(t *testing.T) {
			sales, _, err := Load(c.paths, strings.NewReader(aSale("in")))
			if got := saleNames(sales); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestLoadKeepsTheGood(t *testing.T) {
	bad := strings.Replace(aSale("bad"), "10", "-10", 1)
	dir := write(t, map[string]string{
		"a.yaml": aSale("a"),
		"b.yaml": bad + "---\n" + aSale("b") + "---\n\tc: d\n---\n" + aSale("c"),
		"d.yaml": aSale("d") + "---\n" + aSale("a") + "---\n" + aSale("bad"),
	})
	sales, _, err := Load([]string{dir}, nil)
	if got, want := saleNames(sales), []string{"a", "b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got := messages(err)
	want := []string{
		"b.yaml:4:15: spec.stock is below 1",
		"b.yaml:11:1: the indentation contains a tab",
		"d.yaml:8:18: a sale named a is declared already, at " + dir + "/a.yaml:3",
		"d.yaml:13:18: a sale named bad is declared already, at " + dir + "/b.yaml:3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestForeignFiles loads folders with files of other formats.
func TestForeignFiles(t *testing.T) {
	const deployment, values = "apiVersion: apps/v1\nkind: Deployment\n", "replicas: 3\n---\n"
	dir := write(t, map[string]string{
		"mixed/deploy.yaml": deployment + "---\n" + deployment, "mixed/values.yml": values, "mixed/playbook.yaml": "- hosts: all\n",
		"mixed/sale.yaml":  aSale("a"),
		"none/deploy.yaml": deployment, "none/values.yaml": values,
		"both/sale.yaml":    aSale("a") + "---\n" + deployment,
		"nearly/sale.yaml":  strings.Replace(aSale("a"), "salectl/v1", "salectl/v9", 1),
		"nearly/kind.yaml":  "kind: Sail\n",
		"nearly/merge.yaml": "a: &a {kind: Sale}\n<<: *a\n",
		"broken/chart.yaml": "a: [\n", "broken/sale.yaml": aSale("a"),
		"named/.salectlignore": "# charts\n\n chart*.yaml\nvalues.yaml\n", "named/chart.yaml": "a: [\n",
		"named/values.yaml": values, "named/sale.yaml": aSale("a"),
		"all/.salectlignore": "*\n", "all/sale.yaml": aSale("a"),
		"pattern/.salectlignore": "a\n[\n!a\n/a\n", "pattern/sale.yaml": aSale("a"),
	})
	for name, c := range map[string]struct {
		path    string
		foreign []string
		want    []string
	}{
		"beside a sale":        {"mixed", []string{"deploy.yaml", "playbook.yaml", "values.yml"}, nil},
		"alone":                {"none", []string{"deploy.yaml", "values.yaml"}, []string{"none: no file of the folder declares a sale"}},
		"in one file":          {"both", nil, []string{"sale.yaml:7:7: the document is a Deployment of apps/v1, not a Sale"}},
		"named":                {"mixed/deploy.yaml", nil, []string{"deploy.yaml:2:7: the document is a Deployment", "deploy.yaml:5:7: the document is"}},
		"almost a sale":        {"nearly", nil, []string{"kind.yaml:1:1", "kind.yaml:1:7", "merge.yaml:1:1", "merge.yaml:2:1", "sale.yaml:1:13: apiVersion is"}},
		"broken":               {"broken", nil, []string{"chart.yaml:"}},
		"ignored":              {"named", nil, nil},
		"all ignored":          {"all", nil, []string{"all: the folder has no *.yaml or *.yml file"}},
		"pattern":              {"pattern", nil, []string{".salectlignore:2:1: this is no pattern of file names", ".salectlignore:3:1: this names no file", ".salectlignore:4:1: this names no"}},
		"an ignored one named": {"named/chart.yaml", nil, []string{"chart.yaml:"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, foreign, err := Load([]string{filepath.Join(dir, c.path)}, nil)
			for i := range foreign {
				foreign[i] = filepath.Base(foreign[i])
			}
			got := messages(err)
			matches := slices.EqualFunc(got, c.want, func(got, want string) bool { return strings.Contains(got, want) })
			if !slices.Equal(foreign, c.foreign) || !matches {
				t.Errorf("foreign %q; got\n%s\nwant %q and\n%s", foreign, strings.Join(got, "\n"), c.foreign, strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	full := aSale("full")
	dir := write(t, map[string]string{
		"nothing.yaml": "", "comments.yaml": "# only\n\n# comments\n", "dashes.yaml": "---\n", "null.yaml": "null\n",
		"end.yaml":   "...\n",
		"full.yaml":  full + strings.Repeat("#", MaxFileSize-len(full)),
		"large.yaml": full + strings.Repeat("#", MaxFileSize-len(full)+1),
		"utf16.yaml": "\xff\xfea\x00", "latin1.yaml": "# ok\n# caf\xe9\n", "nul.yaml": "a: \x00\n",
		"separator.yaml": "# 秒杀\u2028\n", "mark.yaml": "a: \ufeff\n", "nel.yaml": "a:\u0085b\n",
		"text/notes.txt": "", "notes/notes.txt": "", "many.yaml": strings.Repeat("--- x\n", 2000),
	})
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "text", "dangling.yaml")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"missing":         {"none.yaml", "none.yaml: there is no such file or folder"},
		"below a file":    {"full.yaml/x", "x: it cannot be read: not a directory"},
		"dangling link":   {"text", "dangling.yaml: there is no such file or folder"},
		"no YAML":         {"notes", "notes: the folder has no *.yaml or *.yml file"},
		"empty folder":    {"empty", "empty: the folder is empty"},
		"nothing":         {"nothing.yaml", "nothing.yaml:1:1: the file has no document"},
		"only comments":   {"comments.yaml", "comments.yaml:1:1: the file has no document"},
		"only an end":     {"end.yaml", "end.yaml:1:1: the file has no document"},
		"only dashes":     {"dashes.yaml", "dashes.yaml:1:1: the file has no document"},
		"null":            {"null.yaml", "null.yaml:1:1: the document is null, and should be a mapping of keys"},
		"full":            {"full.yaml", ""},
		"too large":       {"large.yaml", "large.yaml: the file is larger than 1 MiB"},
		"UTF-16":          {"utf16.yaml", "utf16.yaml:1:1: the file is UTF-16"},
		"Latin-1":         {"latin1.yaml", "latin1.yaml:2:6: this is not UTF-8"},
		"NUL":             {"nul.yaml", "nul.yaml:1:4: this is a control character"},
		"next line":       {"nel.yaml", "nel.yaml:1:3: this is a control character"},
		"line separator":  {"separator.yaml", "separator.yaml:1:5: this is an invisible line separator (U+2028 or U+2029)"},
		"byte order mark": {"mark.yaml", "mark.yaml:1:4: this is a byte order mark in the middle of the file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Load([]string{filepath.Join(dir, c.path)}, nil)
			if got := strings.Join(messages(err), "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for _, p := range Problems(err) {
				if !strings.HasSuffix(p.Remedy, ".") {
					t.Errorf("no remedy: %+v", p)
				}
			}
		})
	}
	t.Run("too many problems", func(t *testing.T) {
		_, _, err := Load([]string{filepath.Join(dir, "many.yaml")}, nil)
		got := messages(err)
		if last := "many.yaml:1001:5: there are more than 1000 problems"; len(got) != 1001 || got[1000] != last {
			t.Errorf("%d problems, the last: %s", len(got), got[len(got)-1])
		}
	})
	t.Run("not permitted", func(t *testing.T) {
		// A test of the function, since root may read everything.
		p := Unreadable("secret.yaml", &fs.PathError{Op: "open", Path: "secret.yaml", Err: syscall.EACCES})
		if got, want := p.Error(), "secret.yaml: this user may not read it"; got != want || !errors.Is(p, fs.ErrPermission) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("the cause is kept", func(t *testing.T) {
		if _, _, err := Load([]string{filepath.Join(dir, "none")}, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want one that is fs.ErrNotExist", err)
		}
	})
}

func TestLoadRefusesStreams(t *testing.T) {
	broken := errors.New("the pipe broke")
	_, _, err := Load([]string{"-"}, iotest.ErrReader(broken))
	if got, want := messages(err), []string{"<stdin>: it cannot be read: the pipe broke"}; !slices.Equal(got, want) || !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, _, err = Load([]string{"-"}, nil)
	if got, want := messages(err), []string{"<stdin>:1:1: the file has no document"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, _, err = Load(nil, nil); len(Problems(err)) != 1 {
		t.Errorf("got %v, want one problem", err)
	}
}

// A mistake far down a long text is found by bisecting.
func TestMistakeInALongText(t *testing.T) {
	text := strings.Repeat("# filler\n", 3000) + aSale("a") + "lock: {\n" + strings.Repeat("# filler\n", 3000)
	_, _, err := Load([]string{"-"}, strings.NewReader(text))
	if got, want := messages(err), []string{"<stdin>:3005:7: a value is missing here"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What is made to be slow must not be, as far as 1 MiB goes: nothing may take
// time by the square of a line's length, or of the number of documents.
func TestHostileTextsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it loads files of the maximum size")
	}
	const bound = 2 * time.Minute // they take a second
	fill := func(head, each, tail string) string {
		return head + strings.Repeat(each, (MaxFileSize-len(head)-len(tail))/len(each)) + tail
	}
	redis := strings.Split(aSale("a"), "embedded")[0] + "hbase: {zookeeper: [z:1], table: t}, redis: {nodes: ["
	for name, text := range map[string]string{
		"billion laughs":           readFile(t, filepath.Join(badSpecs, "alias-expansion.yaml")),
		"one line of anchors":      fill("[", "&a x, *a,", "]"),
		"one line of keys":         fill("{", "a: b,", "}"),
		"one line of secret nodes": fill(redis, "x@a:1,", "]}}"),
		"nothing but brackets":     fill("", "[", ""),
		"empty documents":          fill("", "---\n", ""),
		"broken documents":         fill("", "--- [\n", ""),
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, _, err := Load([]string{"-"}, strings.NewReader(text))
			if took := time.Since(begin); err == nil || took > bound {
				t.Errorf("it took %v, and gave %d problems", took, len(Problems(err)))
			}
		})
	}
}

// FuzzLoad holds any text to this: no panic, every problem has its place
// inside of the file and a remedy, and what is accepted can be stored.
func FuzzLoad(f *testing.F) {
	for _, dir := range []string{goodSpecs, badSpecs} {
		for _, path := range specFiles(f, dir) {
			f.Add(readFile(f, path))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		sales, _, err := Load([]string{"-"}, strings.NewReader(text))
		if err == nil && len(sales) == 0 {
			t.Error("neither a sale nor a problem")
		}
		lines := splitLines(strings.TrimPrefix(text, "\ufeff"))
		for _, p := range Problems(err) {
			// One place behind the last is the end of the file or line.
			empty := len(lines) == 0 && p.Line == 1 && p.Column == 1
			large := len(text) > MaxFileSize && p.Line == 0
			if !empty && !large && (p.Line < 1 || p.Line > len(lines) || p.Column < 1 ||
				p.Column > len([]rune(strings.TrimRight(lines[p.Line-1], "\r\n")))+1) {
				t.Errorf("outside of the file: %v", p)
			}
			if p.Message == "" || p.Remedy == "" || !strings.Contains(p.Text(), p.Message) {
				t.Errorf("incomplete: %+v", p)
			}
		}
		for _, s := range sales {
			data, err := s.JSON()
			if err != nil {
				t.Fatalf("accepted, but not storable: %v", err)
			}
			back, err := FromJSON(data)
			if again, _ := back.JSON(); err != nil || string(again) != string(data) {
				t.Errorf("%v\nstored %s\nback   %s", err, data, again)
			}
		}
	})
}
