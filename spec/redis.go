package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Redis are the nodes of the locks and, with EngineRedis, of the lists. Secrets are given by
// names of environment variables.
type Redis struct {
	// Nodes are host:port in lower case, without duplicates; an odd number with EngineLedger.
	Nodes       []string `yaml:"nodes" json:"nodes" form:"addresses" max:"99" example:"127.0.0.1:6379" doc:"Independent standalone Redis nodes, host:port each; an odd number, except with engine redis. On a live sale they change only while it is paused."`
	UsernameEnv string   `yaml:"usernameEnv,omitempty" json:"usernameEnv,omitempty" with:"passwordEnv" form:"env" example:"REDIS_USERNAME" doc:"Environment variable with the user name. Needs passwordEnv."`
	PasswordEnv string   `yaml:"passwordEnv,omitempty" json:"passwordEnv,omitempty" form:"env" example:"REDIS_PASSWORD" doc:"Environment variable with the password."`
	TLS         bool     `yaml:"tls,omitempty" json:"tls" doc:"Connect with TLS, by the machine's certificate authorities or SSL_CERT_FILE."`
}

// redis checks the nodes. odd: their number must be odd, since they only vote.
func (d *decoder) redis(odd bool) {
	o, ok := d.objects["spec.redis"]
	if !ok {
		return
	}
	if v, ok := d.value(o, "nodes"); ok {
		if n := len(v.node.Content); odd && n%2 == 0 && n > 0 && n <= MaxServers {
			d.refuse(v.at, fmt.Sprintf("Name %d or %d: an even number tolerates no more failures than one node less.", n-1, n+1),
				"%s has %d nodes, an even number", v.path, n)
		}
	}
}

func (r *Redis) home() Home {
	nodes := strings.Join(slices.Sorted(slices.Values(r.Nodes)), " ")
	return Home{Kind: "redis", Place: "the Redis nodes " + nodes, Nodes: r.Nodes, Local: nodes}
}
