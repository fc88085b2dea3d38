type Setter<T> = (value: T | ((old: T) => T)) => void;
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function render(tree: any, parent: Element): void;
export function useState<T>(initial: T): [T, Setter<T>];
export function useEffect(work: () => void | (() => void), inputs?: any[]): void;
export function useRef<T>(initial: T): { current: T };
