// The shape of the YAML file: names, types and defaults, as one typebox schema. Meaning that spans
// values (ranges, clashes, what this version cannot do yet) is checked in load.ts. Names are fixed
// by the design; a name that is known but not in this version stays known, so that it is refused as
// such.
import Type, { type Static } from 'typebox';
import { securitySettingDefaults } from './security-settings.ts';

const port = Type.Integer({ minimum: 1, maximum: 65_535 });
const text = Type.String({ minLength: 1 });
const closed = { additionalProperties: false } as const;

/** Texts, empty ones too: an empty `ssl.endpoint.identification.algorithm` means something. */
const securitySettings = Object.fromEntries(
  Object.keys(securitySettingDefaults).map((name) => [name, Type.Optional(Type.String())]),
);

export const destinationSchema = Type.Object(
  {
    'bootstrap.servers': text,
    addressMap: Type.Record(Type.String(), Type.String(), { default: {} }),
    'client.id': Type.Optional(text),
    'request.timeout.ms': Type.Optional(Type.Integer({ minimum: 100, maximum: 600_000 })),
    ...securitySettings,
  },
  closed,
);

const tlsSchema = Type.Object(
  {
    certificate: text,
    key: text,
    clientCa: Type.Optional(text),
    clientAuth: Type.Enum(['none', 'requested', 'required'], { default: 'none' }),
    clientPrincipal: Type.Enum(['sasl', 'certificate'], { default: 'sasl' }),
    'ssl.principal.mapping.rules': Type.Optional(text),
  },
  closed,
);

export const fileSchema = Type.Object(
  {
    name: Type.String({ pattern: '^[a-zA-Z0-9._-]{1,100}$', default: 'causeway' }),
    destination: destinationSchema,
    gateway: Type.Object(
      {
        bind: Type.String({ minLength: 1, default: '0.0.0.0' }),
        advertise: text,
        bootstrapPort: Type.Integer({ ...port, default: 9092 }),
        brokerPorts: Type.String({ default: '9093-9192' }),
        linkNodeId: Type.Integer({ minimum: 0, maximum: 2_147_483_647, default: 1_000_000 }),
        connectionsPerAddressMax: Type.Optional(Type.Integer({ minimum: 1 })),
        tls: Type.Optional(tlsSchema),
        upstreamAddresses: Type.Optional(Type.Array(text)),
      },
      closed,
    ),
    storage: Type.Object(
      {
        type: Type.String({ default: 'disk' }),
        directory: text,
        // A whole number of bytes, "10GiB" or "5%": read by load.ts.
        minFreeBytes: Type.Unknown({ default: '5%' }),
      },
      closed,
    ),
    admin: Type.Object(
      {
        bind: Type.String({ minLength: 1, default: '127.0.0.1' }),
        port: Type.Integer({ minimum: 0, maximum: 65_535, default: 8082 }),
        partitionMetrics: Type.Boolean({ default: true }),
      },
      { ...closed, default: {} },
    ),
    log: Type.Object(
      {
        level: Type.Enum(['trace', 'debug', 'info', 'warn', 'error'], { default: 'info' }),
      },
      { ...closed, default: {} },
    ),
  },
  closed,
);

export type ConfigFile = Static<typeof fileSchema>;

/** Sections and settings of the design that this version does not have, by path. */
export const notInThisVersion: ReadonlyMap<string, string> = new Map([
  ['gateway.listeners', 'more than one listener'],
  ['state', 'encryption of inline secrets'],
]);
