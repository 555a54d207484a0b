package spec

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// declaring is a sale with the lines of metadata and spec.
func declaring(metadata, spec string) string {
	return "apiVersion: salectl/v1\nkind: Sale\nmetadata:\n  name: a\n" + metadata + "spec:\n" + spec
}

// The text of a variable is read by the type of its key, and never as syntax.
func TestEnvironmentIsSubstituted(t *testing.T) {
	for name, text := range map[string]string{
		"STOCK": "1000", "NODES": "redis-1:6379, redis-2:6379,redis-3:6379", "TITLE": "yes", "STAGE": "2026", "ON": "true",
		"SHARDS": "4", "TTL": "4", "NOTE": "a: {b: [c]} # ${STOCK}\n- \"d\" & *e $${f}", "ZK": "zk:2181",
	} {
		t.Setenv(name, text)
	}
	sales, _, err := Load([]string{"-"}, strings.NewReader(declaring(`  env: [STOCK, NODES, TITLE, STAGE, "ON", SHARDS, TTL, NOTE, ZK]
  description: &title ${TITLE}
  protect: "${ON}" # ${UNKNOWN} in a comment is none
  labels: {stage: "${STAGE}"}
  annotations:
    note: ${NOTE}
    both: the ${STAGE} of $${STAGE}, $$${STAGE}, $$ and $5
    title: *title
`, `  stock: "${STOCK}"
  lockCount: ${SHARDS}
  lock: {ttl: "${TTL}s"}
  redis: {nodes: "${NODES}"}
  hbase: {zookeeper: ["${ZK}"], table: "sales_${STAGE}"}
`)))
	if err != nil {
		t.Fatal(err)
	}
	s := sales[0]
	if s.Stock != 1000 || s.LockCount != 4 || s.Description != "yes" || !s.Protect || s.Labels["stage"] != "2026" || s.LockTTL != 4*Duration(time.Second) ||
		s.Annotations["note"] != "a: {b: [c]} # ${STOCK}\n- \"d\" & *e $${f}" || s.Annotations["title"] != "yes" ||
		s.Annotations["both"] != "the 2026 of ${STAGE}, $2026, $$ and $5" || s.HBase.Table != "sales_2026" ||
		!slices.Equal(s.Redis.Nodes, []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"}) {
		t.Errorf("got %+v", s)
	}
	if len(s.Env) != 9 || s.Env[0] != "STOCK=1000" {
		t.Errorf("the variables are %q", s.Env)
	}
	again, err := s.YAML()
	if err != nil || strings.Contains(string(again), "env:") {
		t.Errorf("%v, and the document is\n%s", err, again)
	}
	if back, _, err := Load([]string{"-"}, strings.NewReader(string(again))); err != nil || string(mustJSON(t, back[0])) != string(mustJSON(t, s)) {
		t.Errorf("read back: %v", err)
	}
}

// An amount of a variable needs no quotes: YAML reads no number.
func TestEnvironmentOfAmounts(t *testing.T) {
	t.Setenv("TOTAL", "0.10")
	sales, _, err := Load([]string{"-"}, strings.NewReader(declaring("  env: [TOTAL]\n",
		"  stock: 1\n  lockCount: 1\n  engine: redis\n  redis: {nodes: [\"redis:1\"]}\n  embedded: {}\n  units:\n    redPacket:\n      total: ${TOTAL}\n      currency: CNY\n")))
	if err != nil || sales[0].RedPacket.Total != 10 {
		t.Errorf("%v, %+v", err, sales)
	}
}

// A document without metadata.env has no references.
func TestEnvironmentIsDeclared(t *testing.T) {
	t.Setenv("STOCK", "1000")
	sales, _, err := Load([]string{"-"}, strings.NewReader(declaring("  description: ${STOCK} $${STOCK}\n", "  stock: 1\n  lockCount: 1\n  embedded: {}\n")))
	if err != nil || sales[0].Description != "${STOCK} $${STOCK}" {
		t.Errorf("%v, %+v", err, sales)
	}
}

func TestEnvironmentProblems(t *testing.T) {
	for name, text := range map[string]string{
		"STOCK": "1000", "TEN": "ten", "EMPTY": "", "BELL": "a\ab", "LOGIN": "ann:hunter2@redis:6379", "REDIS_PASSWORD": "hunter2", "LARGE": strings.Repeat("x", 100_000),
	} {
		t.Setenv(name, text)
	}
	const rest = "  lockCount: 1\n  embedded: {}\n"
	for name, c := range map[string]struct {
		metadata, spec string
		want           []string // line:column: message | remedy
	}{
		"not set": {"  env: [STOCK, ABSENT_1]\n", "  stock: ${STOCK}\n  perUserLimit: ${ABSENT_1}\n" + rest,
			[]string{"5:16: metadata.env[1] is ABSENT_1, which is not set in the environment, or empty | Set ABSENT_1 for this command, and for all others that read the file."}},
		"empty": {"  env: [EMPTY]\n", "  stock: ${EMPTY}\n" + rest,
			[]string{"5:9: metadata.env[0] is EMPTY, which is not set in the environment, or empty | Set EMPTY for this command, and for all others that read the file."}},
		"not used, but in a comment": {"  env: [STOCK]\n", "  stock: 1 # ${STOCK}\n" + rest,
			[]string{"5:9: metadata.env[0] is STOCK, which no value of the document reads | Write ${STOCK} in a value, or remove it here."}},
		"in a key": {"  env: [STOCK]\n  annotations: {\"${STOCK}\": a}\n", "  stock: 1\n" + rest, []string{
			"5:9: metadata.env[0] is STOCK, which no value of the document reads | Write ${STOCK} in a value, or remove it here.",
			"6:17: metadata.annotations: \"${STOCK}\" is no key of a label or annotation | Write a name"}},
		"escaped": {"  env: [STOCK]\n  annotations: {a: \"$${STOCK}\"}\n", "  stock: 1\n" + rest,
			[]string{"5:9: metadata.env[0] is STOCK, which no value of the document reads | Write ${STOCK} in a value, or remove it here."}},
		"of the wrong type": {"  env:\n  - TEN\n", "  stock: ${TEN}\n" + rest,
			[]string{"8:10: spec.stock is text, not a number (with the value of TEN) | Write plain decimal digits, such as 100."}},
		"of the wrong type in a list": {"  env: [TEN]\n", "  stock: 1\n  lockCount: 1\n  redis: {nodes: \"${TEN}\"}\n  hbase: {zookeeper: [\"zk:1\"], table: t}\n",
			[]string{"9:18: spec.redis.nodes[0] has no port (with the value of TEN) | Write host:port, such as 127.0.0.1:6379."}},
		"not declared": {"  env: []\n", "  stock: ${STOCK}\n" + rest, []string{
			"5:8: metadata.env is an empty list | Write env: [\"STOCK\"].",
			"7:10: metadata.env does not declare STOCK | Add STOCK to metadata.env, or write $${STOCK} for the text."}},
		"without metadata.env": {"", "  stock: ${STOCK}\n" + rest,
			[]string{"6:10: spec.stock is text, not a number | Write plain decimal digits, such as 100. If ${NAME} is an environment variable, declare it in metadata.env."}},
		"no reference": {"  env: [STOCK]\n  description: ${stock} ${STOCK}\n", "  stock: 1\n" + rest,
			[]string{"6:16: ${ begins no name of an environment variable | Write ${NAME}, with a name in capitals, or $${ for the text ${."}},
		"declared twice": {"  env: [STOCK, STOCK]\n", "  stock: ${STOCK}\n" + rest,
			[]string{"5:16: metadata.env[1] is STOCK, which is declared already | Name it once."}},
		"no name": {"  env: [stock, 5]\n", "  stock: 1\n" + rest, []string{
			"5:9: metadata.env[0] is not the name of an environment variable | Write a name in capitals, such as STOCK.",
			"5:16: metadata.env[1] is a number to YAML, not text | Quote it, if it is meant: \"5\"."}},
		"no list": {"  env: STOCK\n", "  stock: 1\n" + rest,
			[]string{"5:8: metadata.env is text, and should be a list | Write env: [\"STOCK\"]."}},
		"text that no file may have": {"  env: [BELL]\n  description: ${BELL}\n", "  stock: 1\n" + rest,
			[]string{"5:9: metadata.env[0] is BELL, which has text that no file may have; at its line 1, column 2: this is a control character | Remove it"}},
		"a login": {"  env: [LOGIN]\n", "  stock: 1\n  lockCount: 1\n  redis: {nodes: [\"${LOGIN}\"]}\n  hbase: {zookeeper: [\"zk:1\"], table: t}\n",
			[]string{"9:19: spec.redis.nodes[0] has a user or a password in it (with the value of LOGIN) | Write host:port, and the credentials by usernameEnv and passwordEnv."}},
		"a secret": {"  env: [REDIS_PASSWORD, DRAW_KEY]\n  description: ${REDIS_PASSWORD} ${DRAW_KEY}\n", "  stock: 1\n" + rest, []string{
			"5:9: metadata.env[0] has the name of a secret, which plans and the ledger would have | Rename it if it is none; keys such as passwordEnv and keyEnv take the name of a secret's variable.",
			"5:25: metadata.env[1] has the name of a secret, which plans and the ledger would have | Rename it if it is none"}},
		"the name of a secret's variable": {"  env: [STOCK]\n", "  stock: ${STOCK}\n  lockCount: 1\n  redis: {nodes: [\"redis:1\"], passwordEnv: \"P${STOCK}\"}\n  hbase: {zookeeper: [\"zk:1\"], table: t}\n",
			[]string{"9:44: spec.redis.passwordEnv is not the name of an environment variable, and may be the secret itself (with the value of STOCK) | Put the secret"}},
		"an anchor": {"  env: [TEN]\n  annotations: {a: &x \"${TEN}\"}\n", "  stock: *x\n" + rest,
			[]string{"8:10: spec.stock is text, not a number (with the value of TEN) | Write plain decimal digits, such as 100."}},
		"too much": {"  env: [LARGE]\n  annotations:\n    a: " + strings.Repeat("${LARGE}", 11) + "\n", "  stock: 1\n" + rest,
			[]string{"7:8: the environment variables of the document have more than 1 MiB (with the value of LARGE) | Write fewer references."}},
	} {
		_, _, err := Load([]string{"-"}, strings.NewReader(declaring(c.metadata, c.spec)))
		problems := Problems(err)
		for i, p := range problems {
			got := strings.TrimPrefix(p.Error(), "<stdin>:") + " | " + p.Remedy
			if i >= len(c.want) || !strings.HasPrefix(got, c.want[i]) {
				t.Errorf("%s: got\n%s", name, got)
			}
			if c.metadata != "" && strings.Contains(p.Remedy, "declare it in metadata.env") {
				t.Errorf("%s: the remedy is %s", name, p.Remedy)
			}
			if strings.Contains(p.Text(), "hunter2") {
				t.Errorf("%s: this shows the password:\n%s", name, p.Text())
			}
		}
		if len(problems) != len(c.want) {
			t.Errorf("%s: %d problems, want %d", name, len(problems), len(c.want))
		}
	}
}

// The schema, too, takes references in place of values, and not in place of a secret's variable.
func TestSchemaTakesReferences(t *testing.T) {
	schema := compileSchema(t)
	for text, want := range map[string]string{
		"  stock: ${STOCK}\n  lockCount: 1\n  phase: ${PHASE}\n  opensAt: ${FROM}\n  redis: {nodes: [\"${NODE}\"], tls: \"${TLS}\"}\n  hbase: {zookeeper: \"${ZK}\", table: t}\n": "accepts",
		"  stock: STOCK\n  lockCount: 1\n  embedded: {}\n": "refuses",
		"  stock: 1\n  lockCount: 1\n  redis: {nodes: [\"redis:1\"], passwordEnv: \"${A}\"}\n  hbase: {zookeeper: [\"zk:1\"], table: t}\n": "refuses",
	} {
		if got, err := judge(schema, declaring("  env: [STOCK]\n", text)); got != want {
			t.Errorf("the schema %s\n%s: %v", got, text, err)
		}
	}
}
