package spec

import (
	"reflect"
	"strings"
	"sync"
)

// The types below describe the document, for the decoder and for the JSON
// Schema alike: the yaml tags are the keys that the decoder knows, and a key
// without omitempty is required. Nothing is ever unmarshalled into them, since
// that would lose the places of the values.

type saleDocument struct {
	APIVersion string       `yaml:"apiVersion" jsonschema_description:"Version of this format."`
	Kind       string       `yaml:"kind" jsonschema_description:"What the document declares."`
	Metadata   metadataPart `yaml:"metadata" jsonschema_description:"Which sale this is."`
	Spec       specPart     `yaml:"spec" jsonschema_description:"What is sold, by which rules, and where the sale is kept."`
}

type metadataPart struct {
	Name string `yaml:"name" jsonschema:"example=movie-tickets" jsonschema_description:"Name of the sale everywhere, a DNS label: lower-case letters, digits and hyphens, at most 63. No two sales share one."`
	Run  int64  `yaml:"run,omitempty" jsonschema_description:"Begins the name of a destroyed sale again: the next number, since a destroyed run stays destroyed."`

	Protect bool `yaml:"protect,omitempty" jsonschema_description:"Refuses destroy, close, and a closesAt in the past, until an apply without it. Of a live sale it may change."`

	Labels      map[string]string `yaml:"labels,omitempty" jsonschema_description:"Labels for people and pipelines, with the keys and values of Kubernetes labels: a key is a name, or a DNS subdomain, a slash and a name; a name or value has at most 63 letters, digits, -, _ and dots, with a letter or digit at either end, and a value may be empty. -l chooses sales by them. They stand in the file alone: a change of them plans nothing."`
	Annotations map[string]string `yaml:"annotations,omitempty" jsonschema_description:"Any text under keys like those of labels, for people and pipelines: 256 KiB in all. It stands in the file alone, too, and nothing is chosen by it."`
}

type specPart struct {
	Stock        int64          `yaml:"stock" jsonschema:"example=100" jsonschema_description:"Units on sale, in all."`
	LockCount    int64          `yaml:"lockCount" jsonschema:"example=5" jsonschema_description:"Shards that the stock is split over, each with a lock of its own; at most the stock. It stays for the life of a run. With less than four times perUserLimit units a shard many claims wait for units of other shards: plan warns."`
	PerUserLimit int64          `yaml:"perUserLimit,omitempty" jsonschema_description:"Units that one user may have."`
	Partial      bool           `yaml:"partial,omitempty" jsonschema_description:"With engine ledger: a claim for more units than there are, or than its user may still have, gets those that there are, at least one, and its answer says how many were asked for. Of a live sale it may change. Without it: a claim gets all units or none."`
	Phase        string         `yaml:"phase,omitempty" jsonschema_description:"Whether claims are accepted within opensAt and closesAt: open, paused, or closed, which is for good. A phase that was set otherwise by hand (pause, resume, close) is a difference that plan shows and apply mends, if the sale is not closed. Without it: a new sale is open, and a live one stays in the phase that it is in."`
	OpensAt      string         `yaml:"opensAt,omitempty" jsonschema:"example=2026-11-11T20:00:00+08:00" jsonschema_description:"When selling begins (RFC 3339, with seconds and zone), by the clock of the process that serves. Without it: as soon as the sale is applied."`
	ClosesAt     string         `yaml:"closesAt,omitempty" jsonschema:"example=2026-11-11T21:00:00+08:00" jsonschema_description:"When selling ends (RFC 3339, with seconds and zone), by the clock of the process that serves; after opensAt. Without it: when somebody closes the sale."`
	Payment      *paymentPart   `yaml:"payment,omitempty" jsonschema_description:"How claims are paid, with engine ledger: each is held until its payment is confirmed. Of a live sale it may change; a hold keeps the deadline and the grace that it began with. Without it: a claim is sold at once."`
	Rules        []rulePart     `yaml:"rules,omitempty" jsonschema_description:"Who may claim, with engine ledger: conditions in CEL, of which the first that does not hold refuses the claim. Of a live sale they may change."`
	Variables    []variablePart `yaml:"variables,omitempty" jsonschema_description:"Expressions that rules share, as variables.NAME. Each may use those before it."`
	Users        *usersPart     `yaml:"users,omitempty" jsonschema_description:"What rules may know of a user: attributes, and where they are read from, which is a file or an HBase table."`
	History      *historyPart   `yaml:"history,omitempty" jsonschema_description:"What rules may know of what a user bought in other sales: exports, an HBase table, or both."`
	Queue        *queuePart     `yaml:"queue,omitempty" jsonschema_description:"Who is served first where more is asked for than there is, with engine ledger."`
	Draw         *drawPart      `yaml:"draw,omitempty" jsonschema_description:"How entries are drawn, with order: draw in queue. All but the key stays for the life of a run."`
	Engine       string         `yaml:"engine,omitempty" jsonschema_description:"What gives units out: ledger, or redis for lists that a script pops, with the ledger behind them. It stays for the life of a run."`
	Ack          string         `yaml:"ack,omitempty" jsonschema_description:"With engine redis: a claim is answered once the ledger has it, or once Redis has it."`
	Backlog      int64          `yaml:"backlog,omitempty" jsonschema_description:"With engine redis: the most claims that Redis has granted and the ledger does not have yet. Each shard has its part of it: backlog / lockCount, what is left over one each to the first shards, and at least one; so below lockCount one of each shard may be missing. Beyond its part, claims of a shard are refused as overloaded."`
	Units        *unitsPart     `yaml:"units,omitempty" jsonschema_description:"What a unit is, and what its buyer gets with it. Without it: a number."`
	Lock         *lockPart      `yaml:"lock,omitempty" jsonschema_description:"How shards are locked."`
	Redis        *redisPart     `yaml:"redis,omitempty" jsonschema_description:"The Redis nodes that keep the locks, with hbase; and with engine redis the lists, with hbase or embedded."`
	HBase        *hbasePart     `yaml:"hbase,omitempty" jsonschema_description:"The HBase table that keeps the ledger. Goes with redis."`
	Embedded     *embeddedPart  `yaml:"embedded,omitempty" jsonschema_description:"Keeps locks and ledger in local files, with no server, instead of redis and hbase; with engine redis the ledger only."`
}

type paymentPart struct {
	HoldFor  string `yaml:"holdFor" jsonschema:"example=10m" jsonschema_description:"How long a claim is held for its payment, from the claim to the deadline that the buyer is told: 1s to 24h, in h, m, s or ms."`
	Grace    string `yaml:"grace,omitempty" jsonschema:"example=30s" jsonschema_description:"How long after the deadline a payment still counts, before the units are for sale again: up to 1h, in h, m, s or ms."`
	ExtendBy string `yaml:"extendBy,omitempty" jsonschema:"example=5m" jsonschema_description:"By how much a hold may be extended, once: 1s to 24h, in h, m, s or ms. Without it: no hold is extended."`
	Late     string `yaml:"late,omitempty" jsonschema_description:"What a payment does that comes after the release. refuse: it buys nothing and is owed back. resell: it buys the same units if they are still free, else others; if there are none, it is owed back."`

	Check   *checkPart   `yaml:"check,omitempty" jsonschema_description:"How the process that serves asks the payment service what became of a held claim's payment. Without it: nobody is asked."`
	Webhook *webhookPart `yaml:"webhook,omitempty" jsonschema_description:"How the payment service tells by itself, by Standard Webhooks. Without it: no webhook is taken."`
}

type checkPart struct {
	URL      string `yaml:"url" jsonschema:"example=https://pay.example/v1/payments/{claim}" jsonschema_description:"Where a GET tells of one claim's payment, http or https. {claim} has to be in it; {user}, {sale} and {run} may be. Each is escaped for its place in the path or query."`
	Interval string `yaml:"interval,omitempty" jsonschema:"example=5s" jsonschema_description:"Time between two requests for one claim: 100ms to 10m, in h, m, s or ms. After a failed request it is longer."`
	Timeout  string `yaml:"timeout,omitempty" jsonschema:"example=3s" jsonschema_description:"How long one request may take: 100ms to 30s, in s or ms."`
	Success  string `yaml:"success" jsonschema:"example=response.status == 200 && response.body.state == 'paid'" jsonschema_description:"CEL that is true if the claim is paid: it is confirmed then. It may read response.status, response.body, claim.id, claim.user, claim.quantity, sale.name and sale.run."`
	Failure  string `yaml:"failure,omitempty" jsonschema:"example=response.body.state == 'failed'" jsonschema_description:"CEL that is true if the claim will not be paid: it is cancelled then. Without it: what is not paid expires."`
	Payment  string `yaml:"payment,omitempty" jsonschema:"example=response.body.id" jsonschema_description:"CEL for the reference of the payment, text or a whole number, which the ledger records. Without it: the claim's id. A confirm from elsewhere has to have the same reference."`
	TokenEnv string `yaml:"tokenEnv,omitempty" jsonschema:"example=PAYMENT_TOKEN" jsonschema_description:"Name of the environment variable that holds the bearer token to send; never the token."`
}

type webhookPart struct {
	SecretsEnv string `yaml:"secretsEnv" jsonschema:"example=PAYMENT_WEBHOOK_SECRETS" jsonschema_description:"Name of the environment variable that holds the keys of the signatures, whsec_ and base64 each, separated by spaces: several while keys change. Never the keys."`
	Success    string `yaml:"success" jsonschema:"example=event.type == 'payment.paid'" jsonschema_description:"CEL that is true if the event says that a claim is paid. It may read event, which is the JSON of the body, sale.name and sale.run."`
	Failure    string `yaml:"failure,omitempty" jsonschema:"example=event.type == 'payment.failed'" jsonschema_description:"CEL that is true if the event says that a claim will not be paid: it is cancelled then. Without it: what is not paid expires."`
	Claim      string `yaml:"claim" jsonschema:"example=event.data.claim" jsonschema_description:"CEL for the id of the claim that the event is about."`
	Payment    string `yaml:"payment,omitempty" jsonschema:"example=event.data.id" jsonschema_description:"CEL for the reference of the payment, as that of check. Without it: the claim's id."`
}

type rulePart struct {
	Name              string `yaml:"name" jsonschema:"example=members" jsonschema_description:"Name of the rule, a DNS label. No two rules share one."`
	Require           string `yaml:"require" jsonschema:"example=user.level == 'gold'" jsonschema_description:"Expression in CEL that has to be true: over user, claim, sale, history, now and variables."`
	Message           string `yaml:"message,omitempty" jsonschema:"example=Members only." jsonschema_description:"What a buyer is told whom the rule refuses, one line. Without it: a text that names the rule."`
	MessageExpression string `yaml:"messageExpression,omitempty" jsonschema:"example='Hello ' + user.id" jsonschema_description:"Expression in CEL that makes the message of values. If it fails, the message is told."`
	Enforce           string `yaml:"enforce,omitempty" jsonschema_description:"deny: a claim that does not satisfy the rule is refused. audit: it is counted and goes on."`
}

type variablePart struct {
	Name       string `yaml:"name" jsonschema:"example=adult" jsonschema_description:"Name of the variable, an identifier. No two variables share one."`
	Expression string `yaml:"expression" jsonschema:"example=now - user.born > duration('157680h')" jsonschema_description:"Expression in CEL, evaluated at most once a claim."`
}

type usersPart struct {
	Attributes map[string]string `yaml:"attributes,omitempty" jsonschema_description:"Attributes of a user that rules read as user.NAME, each with its type: string, int, double, bool, timestamp or list of string."`
	File       string            `yaml:"file,omitempty" jsonschema:"example=users.csv" jsonschema_description:"File of the users, relative to this document: CSV with a header, or one JSON object a line (.ndjson), with an id each. It is read again when it changes. Instead of hbase."`
	HBase      *usersTablePart   `yaml:"hbase,omitempty" jsonschema_description:"HBase table of the users, with a row for each by the user's id. Instead of file."`
	Fresh      string            `yaml:"fresh,omitempty" jsonschema:"example=30s" jsonschema_description:"How old what is known of a user may be: 1s to 1h, in h, m, s or ms. What is older is read again; if that fails, claims are refused."`
	Cached     int64             `yaml:"cached,omitempty" jsonschema_description:"Users of an HBase table that are kept in memory, at most."`
}

type usersTablePart struct {
	Zookeeper     []string          `yaml:"zookeeper,omitempty" jsonschema_description:"HBase's ZooKeeper servers, host:port each. Without it: those of spec.hbase."`
	ZookeeperRoot string            `yaml:"zookeeperRoot,omitempty" jsonschema:"example=/hbase" jsonschema_description:"HBase's parent znode. Without it: that of spec.hbase, or /hbase beside zookeeper."`
	Table         string            `yaml:"table" jsonschema:"example=users" jsonschema_description:"Table of the users, which salectl only reads."`
	Family        string            `yaml:"family" jsonschema:"example=u" jsonschema_description:"Column family of the attributes."`
	Columns       map[string]string `yaml:"columns,omitempty" jsonschema_description:"Columns of attributes that are not called like these."`
}

type historyPart struct {
	Files []string          `yaml:"files,omitempty" jsonschema_description:"Exports of earlier sales, or patterns of their names such as exports/*.ndjson, relative to this document."`
	HBase *historyTablePart `yaml:"hbase,omitempty" jsonschema_description:"HBase table with a row for each user by the user's id. destroy adds what users bought in this sale."`
}

type historyTablePart struct {
	Zookeeper     []string `yaml:"zookeeper,omitempty" jsonschema_description:"HBase's ZooKeeper servers, host:port each. Without it: those of spec.hbase."`
	ZookeeperRoot string   `yaml:"zookeeperRoot,omitempty" jsonschema:"example=/hbase" jsonschema_description:"HBase's parent znode. Without it: that of spec.hbase, or /hbase beside zookeeper."`
	Table         string   `yaml:"table" jsonschema:"example=purchases" jsonschema_description:"Table of the purchases."`
	Family        string   `yaml:"family" jsonschema:"example=h" jsonschema_description:"Column family of the purchases."`
}

type queuePart struct {
	Order    string `yaml:"order,omitempty" jsonschema_description:"Order in which claims that wait are decided."`
	Priority string `yaml:"priority,omitempty" jsonschema:"example=user.level == 'gold' ? 1 : 0" jsonschema_description:"With order priority: expression in CEL, a number, the highest first. Those of one priority go by arrival."`
	Depth    int64  `yaml:"depth,omitempty" jsonschema_description:"Claims that may wait for one shard. Beyond it, claims are refused as overloaded."`
}

type drawPart struct {
	KeyEnv      string      `yaml:"keyEnv,omitempty" jsonschema:"example=DRAW_KEY" jsonschema_description:"Name of the environment variable that holds the key under which the secret of the draw is encrypted until it is revealed: 32 bytes or more in base64, such as openssl rand -base64 32 makes. Never the key."`
	KeyFile     string      `yaml:"keyFile,omitempty" jsonschema:"example=draw.key" jsonschema_description:"File that holds such a key, relative to this document. Instead of keyEnv."`
	Substitutes *int64      `yaml:"substitutes,omitempty" jsonschema_description:"Ranks that are drawn beyond the stock, for awards that come to nothing. Without it: as many as the stock."`
	Beacon      *beaconPart `yaml:"beacon,omitempty" jsonschema_description:"Public source of randomness that the order follows from besides, so that whoever knows the secret cannot foresee it. Without it: the order follows from entries and secret."`
}

type beaconPart struct {
	Name     string `yaml:"name" jsonschema:"example=drand quicknet" jsonschema_description:"What the beacon is called, for people who verify the draw."`
	Round    any    `yaml:"round" jsonschema:"example=12345678" jsonschema_description:"Round of the beacon whose value counts, a number or text: one that comes after closesAt."`
	Fallback string `yaml:"fallback,omitempty" jsonschema_description:"What counts if the beacon has no value for that round. none: nothing is drawn without it. secret: the order follows from entries and secret alone."`
}

type unitsPart struct {
	Range     []string       `yaml:"range,omitempty" jsonschema:"example=A1-A40" jsonschema_description:"With engine ledger: names of the units, such as those of seats. Each item is one name, or the first and the last of many, which differ in the number at their end only: A1-A40, or A01-A40 with numbers of two digits. They name as many units as the stock has; anybody may know them."`
	File      string         `yaml:"file,omitempty" jsonschema:"example=codes.csv" jsonschema_description:"With engine ledger: file of the units, relative to this document: CSV with a header, one unit a line and as many as the stock has. Needs keyEnv, keyFile or public: true."`
	Column    string         `yaml:"column,omitempty" jsonschema:"example=code" jsonschema_description:"Column of file that names a unit, each another. Without it: the first. A buyer gets the others with it."`
	KeyEnv    string         `yaml:"keyEnv,omitempty" jsonschema:"example=COUPON_KEY" jsonschema_description:"Name of the environment variable that holds the key under which units of file are encrypted where they are kept: 32 bytes or more in base64, such as openssl rand -base64 32 makes. Never the key."`
	KeyFile   string         `yaml:"keyFile,omitempty" jsonschema:"example=coupon.key" jsonschema_description:"File that holds such a key, relative to this document. Instead of keyEnv."`
	Public    bool           `yaml:"public,omitempty" jsonschema_description:"Whether anybody may know the units of file: they are stored as they are. Instead of keyEnv or keyFile."`
	Choose    bool           `yaml:"choose,omitempty" jsonschema_description:"Whether buyers may ask for units by name, or for some that are adjacent: with range, or with public: true."`
	RedPacket *redPacketPart `yaml:"redPacket,omitempty" jsonschema_description:"With engine redis: units are packets of money; the stock is their number."`
}

type redPacketPart struct {
	Total    string `yaml:"total" jsonschema:"example=100.00" jsonschema_description:"Money in all packets together, an exact decimal in quotes; at least min times stock."`
	Currency string `yaml:"currency" jsonschema:"example=CNY" jsonschema_description:"Code of ISO 4217. It says how many decimals there are."`
	Split    string `yaml:"split,omitempty" jsonschema_description:"random: by luck, up to twice the mean of what is left. even: as equal as it goes, a cent more for the first ones. fixed: all equal, so that the total must divide by the stock."`
	Min      string `yaml:"min,omitempty" jsonschema:"example=0.01" jsonschema_description:"Least amount of a packet, an exact decimal in quotes. Without it: the smallest there is."`
}

type lockPart struct {
	TTL string `yaml:"ttl,omitempty" jsonschema:"example=3s,example=2500ms" jsonschema_description:"How long a lock outlives an owner that has died, and so how soon a standby takes over: 2s to 10s, in s or ms. Of a live sale another ttl takes effect when a process next takes the sale over."`
}

type redisPart struct {
	Nodes       []string `yaml:"nodes" jsonschema_description:"Standalone Redis nodes, independent of each other, host:port each. An odd number, so that a majority is clear; with engine redis any number, since each shard's list is on one of them. Of a live sale they change only while it is paused."`
	UsernameEnv string   `yaml:"usernameEnv,omitempty" jsonschema:"example=REDIS_USERNAME" jsonschema_description:"Name of the environment variable that holds the user name. Goes with passwordEnv."`
	PasswordEnv string   `yaml:"passwordEnv,omitempty" jsonschema:"example=REDIS_PASSWORD" jsonschema_description:"Name of the environment variable that holds the password; never the password."`
	TLS         bool     `yaml:"tls,omitempty" jsonschema_description:"Whether to connect with TLS, trusting the certificates that the machine trusts, or those in SSL_CERT_FILE."`
}

type hbasePart struct {
	Zookeeper     []string `yaml:"zookeeper" jsonschema_description:"HBase's ZooKeeper servers, host:port each."`
	ZookeeperRoot string   `yaml:"zookeeperRoot,omitempty" jsonschema_description:"HBase's parent znode."`
	Table         string   `yaml:"table" jsonschema:"example=sales" jsonschema_description:"Table that keeps the ledgers; many sales may share it, and destroy leaves it. A namespace may stand before it, with a colon."`
}

type embeddedPart struct {
	Dir string `yaml:"dir,omitempty" jsonschema_description:"Folder of the files, relative to this document."`
}

// keyDef is one key that a mapping of the document may have.
type keyDef struct {
	name     string
	required bool
}

// keysOf returns the keys of a mapping that t describes, in their order.
func keysOf(t reflect.Type) []keyDef {
	var keys []keyDef
	for _, f := range reflect.VisibleFields(t) {
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		keys = append(keys, keyDef{name, option != "omitempty"})
	}
	return keys
}

// homes says for every key of the document in which mappings it belongs, by
// their paths; the path of the outermost is empty.
var homes = sync.OnceValue(func() map[string][]string {
	found := map[string][]string{}
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			found[name] = append(found[name], path)
			below := f.Type
			if below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
				below = below.Elem()
			}
			if below.Kind() == reflect.Struct {
				walk(below, join(path, name))
			}
		}
	}
	walk(reflect.TypeFor[saleDocument](), "")
	return found
})

// join appends a key to the path of its mapping.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
