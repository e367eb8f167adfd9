// The settings files of a test broker, for each generation of Kafka.
//
// Owns: server.properties (KRaft, or ZooKeeper for 2.8), zookeeper.properties and the log
// settings. Refuses to know how brokers are started.
// Invariant: clients are told the advertised name only; brokers and the controller talk to each
// other over 127.0.0.1 on a listener of their own.

import type { KafkaVersion } from './kafka-jars.ts';

export interface BrokerPlan {
  version: KafkaVersion;
  id: number;
  brokersCount: number;
  clientPort: number;
  internalPort: number;
  /** The controller's port, or ZooKeeper's. */
  controllerPort: number;
  advertised: string;
  logDirectory: string;
  settings: Record<string, string>;
}

export function usesZooKeeper(version: KafkaVersion): boolean {
  return version.startsWith('2.');
}

function majorOf(version: KafkaVersion): number {
  return Number(version.split('.')[0]);
}

/** Of share groups, for a cluster of any size: quick to be made, with one place for all of them. */
export const oneShareState = {
  'share.coordinator.state.topic.replication.factor': '1',
  'share.coordinator.state.topic.min.isr': '1',
  'share.coordinator.state.topic.num.partitions': '1',
};

function commonSettings(plan: BrokerPlan): Record<string, string> {
  const replication = String(Math.min(3, plan.brokersCount));
  const settings: Record<string, string> = {
    'advertised.listeners': `CLIENT://${plan.advertised},INTERNAL://127.0.0.1:${plan.internalPort}`,
    'inter.broker.listener.name': 'INTERNAL',
    'log.dirs': plan.logDirectory,
    'auto.create.topics.enable': 'false',
    'num.network.threads': '2',
    'num.io.threads': '4',
    'num.recovery.threads.per.data.dir': '1',
    'offsets.topic.replication.factor': replication,
    'offsets.topic.num.partitions': '4',
    'transaction.state.log.replication.factor': replication,
    'transaction.state.log.min.isr': '1',
    'transaction.state.log.num.partitions': '4',
    'default.replication.factor': '1',
    'group.initial.rebalance.delay.ms': '0',
    'log.cleaner.dedupe.buffer.size': '16777216',
    'log.cleaner.backoff.ms': '1000',
    'log.retention.check.interval.ms': '5000',
    'log.initial.task.delay.ms': '2000',
    'log.segment.delete.delay.ms': '1000',
    'controlled.shutdown.max.retries': '1',
  };
  if (majorOf(plan.version) < 4) delete settings['log.initial.task.delay.ms'];
  if (plan.brokersCount > 1) settings['broker.rack'] = `rack-${plan.id}`;
  return settings;
}

function kraftSettings(plan: BrokerPlan): Record<string, string> {
  const listeners = [
    `CLIENT://127.0.0.1:${plan.clientPort}`,
    `INTERNAL://127.0.0.1:${plan.internalPort}`,
  ];
  const isController = plan.id === 1;
  if (isController) listeners.push(`CONTROLLER://127.0.0.1:${plan.controllerPort}`);
  const settings: Record<string, string> = {
    ...commonSettings(plan),
    'process.roles': isController ? 'broker,controller' : 'broker',
    'node.id': String(plan.id),
    'controller.quorum.voters': `1@127.0.0.1:${plan.controllerPort}`,
    'controller.listener.names': 'CONTROLLER',
    // A killed broker may register again only when its old session has run out.
    'broker.session.timeout.ms': '3000',
    'broker.heartbeat.interval.ms': '500',
    listeners: listeners.join(','),
    'listener.security.protocol.map':
      'CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,' +
      'SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL',
  };
  if (majorOf(plan.version) >= 4) {
    const replication = String(Math.min(3, plan.brokersCount));
    settings['share.coordinator.state.topic.replication.factor'] = replication;
    settings['share.coordinator.state.topic.min.isr'] = '1';
    settings['share.coordinator.state.topic.num.partitions'] = '4';
  }
  return settings;
}

function zooKeeperSettings(plan: BrokerPlan): Record<string, string> {
  return {
    ...commonSettings(plan),
    'broker.id': String(plan.id),
    'zookeeper.session.timeout.ms': '3000',
    'zookeeper.connect': `127.0.0.1:${plan.controllerPort}`,
    listeners: `CLIENT://127.0.0.1:${plan.clientPort},INTERNAL://127.0.0.1:${plan.internalPort}`,
    'listener.security.protocol.map': 'CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT',
  };
}

function properties(settings: Record<string, string>): string {
  const lines = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
  return `${lines.join('\n')}\n`;
}

export function serverProperties(plan: BrokerPlan): string {
  const own = usesZooKeeper(plan.version) ? zooKeeperSettings(plan) : kraftSettings(plan);
  return properties({ ...own, ...plan.settings });
}

export function zooKeeperProperties(dataDirectory: string, port: number): string {
  return properties({
    dataDir: dataDirectory,
    clientPort: String(port),
    clientPortAddress: '127.0.0.1',
    'admin.enableServer': 'false',
    maxClientCnxns: '0',
    tickTime: '1000',
  });
}

export const logProperties = `log4j.rootLogger=INFO, stdout
log4j.logger.org.apache.kafka.common.config=WARN
log4j.logger.kafka.server.KafkaConfig=WARN
log4j.logger.org.apache.zookeeper=WARN
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
`;
