package units

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"salectl/spec"
)

func TestSeal(t *testing.T) {
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKey(append([]byte("x"), secret...))
	if err != nil {
		t.Fatal(err)
	}
	plain, context := []byte("the units"), []byte("sale 1, chunk 2")
	sealed, err := key.Seal(rand.Reader, context, plain)
	if err != nil || bytes.Contains(sealed, plain) || len(sealed) != 12+len(plain)+16 {
		t.Fatalf("%x, %v", sealed, err)
	}
	if got, err := key.Open(context, sealed); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("got %q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another key":     func() ([]byte, error) { return other.Open(context, sealed) },
		"another context": func() ([]byte, error) { return key.Open([]byte("sale 1, chunk 3"), sealed) },
		"no context":      func() ([]byte, error) { return key.Open(nil, sealed) },
		"nothing":         func() ([]byte, error) { return key.Open(context, nil) },
		"cut off":         func() ([]byte, error) { return key.Open(context, sealed[:len(sealed)-1]) },
		"too short":       func() ([]byte, error) { return key.Open(context, sealed[:11]) },
	} {
		if got, err := open(); !errors.Is(err, ErrKey) || got != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for i := range sealed {
		damaged := bytes.Clone(sealed)
		damaged[i] ^= 1
		if _, err := key.Open(context, damaged); !errors.Is(err, ErrKey) {
			t.Errorf("byte %d damaged: %v", i, err)
		}
	}
	if _, err := key.Seal(bytes.NewReader(make([]byte, 11)), context, plain); err == nil {
		t.Error("it was sealed with a nonce that is too short")
	}
}

// What was sealed with a key once has to open for ever.
func TestKeyStaysTheSame(t *testing.T) {
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	if got := key.ID(); got != wantID {
		t.Errorf("the id is %s", got)
	}
	sealed, err := base64.StdEncoding.DecodeString(wantSealed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := key.Open([]byte("context"), sealed); err != nil || string(got) != "plain" {
		made, _ := key.Seal(bytes.NewReader(make([]byte, 12)), []byte("context"), []byte("plain"))
		t.Errorf("got %q, %v; it is %s", got, err, base64.StdEncoding.EncodeToString(made))
	}
}

const (
	wantID     = "61524768e8b7cc09"
	wantSealed = "AAAAAAAAAAAAAAAAYvmcG2e+4AN9i/hBkRPsEWGfkvuM"
)

func TestReadKey(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		return path
	}
	encoded := base64.StdEncoding.EncodeToString(secret)
	open := file("open", encoded)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	long := base64.StdEncoding.EncodeToString(bytes.Repeat(secret, 3)) // openssl breaks the line
	vars := map[string]string{
		"GOOD": encoded, "BLANKS": " " + encoded + "\n", "BARE": strings.TrimRight(encoded, "="), "EMPTY": "", "BLANK": " \n",
		"TEXT": "CANARY! CANARY! CANARY! CANARY! CANARY!", "SHORT": base64.StdEncoding.EncodeToString([]byte("CANARY CANARY CANARY CANARY CAN")),
	}
	lookup := func(name string) (string, bool) { text, ok := vars[name]; return text, ok }
	named := "sale.yaml:1: the environment variable %s, which units.keyEnv names, "
	for name, c := range map[string]struct {
		units spec.Units
		want  string // begin of the error; empty: there is none
	}{
		"a variable":           {spec.Units{KeyEnv: "GOOD"}, ""},
		"blanks around":        {spec.Units{KeyEnv: "BLANKS"}, ""},
		"without padding":      {spec.Units{KeyEnv: "BARE"}, ""},
		"a file":               {spec.Units{KeyFile: file("good", encoded+"\n")}, ""},
		"of two lines":         {spec.Units{KeyFile: file("long", long[:64]+"\n"+long[64:]+"\n")}, ""},
		"not set":              {spec.Units{KeyEnv: "MISSING"}, strings.ReplaceAll(named, "%s", "MISSING") + "is not set"},
		"empty":                {spec.Units{KeyEnv: "EMPTY"}, strings.ReplaceAll(named, "%s", "EMPTY") + "is empty"},
		"blank":                {spec.Units{KeyEnv: "BLANK"}, strings.ReplaceAll(named, "%s", "BLANK") + "is empty"},
		"no base64":            {spec.Units{KeyEnv: "TEXT"}, strings.ReplaceAll(named, "%s", "TEXT") + "has no base64"},
		"short":                {spec.Units{KeyEnv: "SHORT"}, strings.ReplaceAll(named, "%s", "SHORT") + "has a key of 31 bytes; at least 32 are required"},
		"behind a mark":        {spec.Units{KeyFile: file("mark", "\ufeff"+encoded+"\r\n")}, ""},
		"for everybody":        {spec.Units{KeyFile: open}, open + ": the key of the units: everyone on this machine can read the file (mode 0644)"},
		"no file":              {spec.Units{KeyFile: filepath.Join(folder, "none")}, filepath.Join(folder, "none") + ": the key of the units: there is no such file or folder"},
		"a folder":             {spec.Units{KeyFile: folder}, folder + ": the key of the units: it is a folder"},
		"an empty file":        {spec.Units{KeyFile: file("empty", "")}, filepath.Join(folder, "empty") + ": the file is empty"},
		"a file of no key":     {spec.Units{KeyFile: file("text", vars["TEXT"])}, filepath.Join(folder, "text") + ": the file has no base64"},
		"a large file":         {spec.Units{KeyFile: file("large", strings.Repeat("A", maxKeyFile+4))}, filepath.Join(folder, "large") + ": the file is too large for a key"},
		"a stored declaration": {spec.Units{}, "sale.yaml:1: the key of its units is in a file that only the sale file names"},
	} {
		t.Run(name, func(t *testing.T) {
			c.units.FromFile, c.units.Secret = true, true
			s, err := ForSale(saleOf(1, c.units), lookup)
			if c.want == "" {
				if err != nil || s.Key() == nil || !regexp.MustCompile("^[0-9a-f]{16}$").MatchString(s.Key().ID()) {
					t.Errorf("got %v", err)
				}
				return
			}
			problems := spec.Problems(err)
			if len(problems) != 1 || problems[0].Error() != c.want || !strings.HasSuffix(problems[0].Remedy, ".") || strings.Contains(problems[0].Text(), "CANARY") {
				t.Errorf("got %v", err)
			}
		})
	}
	if s, err := ForSale(saleOf(1, spec.Units{FromFile: true}), lookup); err != nil || s.Key() != nil {
		t.Errorf("public units: %v, %v", s, err)
	}
	s, err := ForSale(spec.Sale{Name: "stored", Units: &spec.Units{FromFile: true, Secret: true, KeyEnv: "MISSING"}}, lookup)
	if s != nil || err == nil || !strings.HasPrefix(err.Error(), "sale stored: ") {
		t.Errorf("of a ledger: %v, %v", s, err)
	}
	if _, err := NewKey(secret[1:]); err == nil {
		t.Error("a key of 31 bytes")
	}
}

// The secret of a draw is sealed under another key than units are, of the same bytes.
func TestDrawKey(t *testing.T) {
	secret := strings.Repeat("k", MinSecret)
	set := map[string]string{"DRAW_KEY": base64.StdEncoding.EncodeToString([]byte(secret))}
	env := func(name string) (string, bool) { text, ok := set[name]; return text, ok }
	s := spec.Sale{Name: "trainers", File: "sale.yaml:1", Draw: &spec.Draw{KeyEnv: "DRAW_KEY"}}
	key, err := DrawKey(s, env)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := NewDrawKey([]byte(secret))
	other, _ := NewKey([]byte(secret))
	sealed, err := key.Seal(rand.Reader, []byte("draw 1"), []byte("secret"))
	if err != nil || key.ID() != same.ID() || key.ID() == other.ID() {
		t.Fatalf("ids %s, %s and %s, %v", key.ID(), same.ID(), other.ID(), err)
	}
	if plain, err := same.Open([]byte("draw 1"), sealed); err != nil || string(plain) != "secret" {
		t.Errorf("opened: %q, %v", plain, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"the key of units": func() ([]byte, error) { return other.Open([]byte("draw 1"), sealed) },
		"another run":      func() ([]byte, error) { return key.Open([]byte("draw 2"), sealed) },
	} {
		if plain, err := open(); !errors.Is(err, ErrKey) {
			t.Errorf("%s opens it: %q, %v", name, plain, err)
		}
	}
	s.Draw.KeyEnv = "MISSING"
	if _, err := DrawKey(s, env); err == nil || !strings.Contains(err.Error(), "the environment variable MISSING, which draw.keyEnv names, is not set") {
		t.Errorf("without the variable: %v", err)
	}
	if key, err := DrawKey(spec.Sale{}, env); key != nil || err != nil {
		t.Errorf("of a sale that is no draw: %v, %v", key, err)
	}
}
