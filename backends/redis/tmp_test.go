package redis

import _ "github.com/Shopify/toxiproxy/v2"
import _ "github.com/Shopify/toxiproxy/v2/toxics"
